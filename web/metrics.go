package web

import (
	"bufio"
	"cmp"
	"fmt"
	"io"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"sync"
	"time"
)

// Gauge is a figure that another room counts, read when the metrics are.
type Gauge struct {
	Name, Help string
	Value      func() float64
}

// buckets are the upper bounds of the duration histogram, in seconds.
var buckets = [...]float64{.001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 60}

// metrics counts requests by route and status, and how long they took.
type metrics struct {
	gauges []Gauge

	mu       sync.Mutex
	requests map[routeStatus]uint64
	duration map[string]*histogram // by route
}

type routeStatus struct {
	route  string
	status int
}

type histogram struct {
	counts [len(buckets) + 1]uint64 // the last is for what is above all bounds
	sum    float64                  // seconds
}

func newMetrics(gauges []Gauge) *metrics {
	return &metrics{gauges: gauges, requests: map[routeStatus]uint64{}, duration: map[string]*histogram{}}
}

// observe counts an answered request. The route is the mux's pattern, so that what clients write into
// addresses makes no new series.
func (m *metrics) observe(r *http.Request, status int, elapsed time.Duration) {
	route := cmp.Or(r.Pattern, "none")
	i, _ := slices.BinarySearch(buckets[:], elapsed.Seconds())
	m.mu.Lock()
	defer m.mu.Unlock()
	m.requests[routeStatus{route, status}]++
	h := m.duration[route]
	if h == nil {
		h = new(histogram)
		m.duration[route] = h
	}
	h.counts[i]++
	h.sum += elapsed.Seconds()
}

// ServeHTTP writes the metrics in Prometheus' text format, version 0.0.4.
func (m *metrics) ServeHTTP(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Content-Type", "text/plain; version=0.0.4; charset=utf-8")
	out := bufio.NewWriter(w)
	m.write(out)
	_ = out.Flush() // its only error is a reader that is gone
}

func (m *metrics) write(w io.Writer) {
	m.mu.Lock()
	requests, duration := maps.Clone(m.requests), make(map[string]histogram, len(m.duration))
	for route, h := range m.duration {
		duration[route] = *h
	}
	m.mu.Unlock()

	const total, seconds = "cowrite_http_requests_total", "cowrite_http_request_seconds"
	fmt.Fprintf(w, "# HELP %s HTTP requests answered, by route and status.\n# TYPE %s counter\n", total, total)
	for _, k := range slices.SortedFunc(maps.Keys(requests), func(a, b routeStatus) int {
		return cmp.Or(cmp.Compare(a.route, b.route), cmp.Compare(a.status, b.status))
	}) {
		fmt.Fprintf(w, "%s{route=%q,status=\"%d\"} %d\n", total, k.route, k.status, requests[k])
	}
	fmt.Fprintf(w, "# HELP %s Time from the request to the end of the answer, by route. Streams and sockets count as a whole.\n# TYPE %s histogram\n", seconds, seconds)
	for _, route := range slices.Sorted(maps.Keys(duration)) {
		h := duration[route]
		var n uint64
		for i, bound := range buckets {
			n += h.counts[i]
			fmt.Fprintf(w, "%s_bucket{route=%q,le=%q} %d\n", seconds, route, formatFloat(bound), n)
		}
		n += h.counts[len(buckets)]
		fmt.Fprintf(w, "%s_bucket{route=%q,le=\"+Inf\"} %d\n%s_sum{route=%q} %s\n%s_count{route=%q} %d\n",
			seconds, route, n, seconds, route, formatFloat(h.sum), seconds, route, n)
	}
	for _, g := range m.gauges {
		fmt.Fprintf(w, "# HELP %s %s\n# TYPE %s gauge\n%s %s\n", g.Name, g.Help, g.Name, g.Name, formatFloat(g.Value()))
	}
}

func formatFloat(f float64) string { return strconv.FormatFloat(f, 'g', -1, 64) }
