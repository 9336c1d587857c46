package playground

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"cowrite/lease"
	"cowrite/lease/wire"
)

// Base is where the routes of the coordination door begin.
const Base = "/api/v1/acp/coordination"

// What the door tells of the past.
const (
	deadlocksFor  = time.Hour
	deadlocksMost = 100
	ledgerMost    = 1000
	ledgerDefault = 100
)

// request is one, taken apart.
type request struct {
	method string
	path   string // behind Base
	query  url.Values
	agent  lease.Agent // whose key came with it; "" is none
	body   []byte
}

var agentName = regexp.MustCompile(`^[a-z0-9][a-z0-9._-]{0,62}$`)

// parseRequest takes a request apart: a line with method and path, headers, an empty line, the body. Instead of a
// key the Authorization header has the name of an agent; without it, whom the body names acts.
func parseRequest(text string) (request, *refusal) {
	head, body, _ := strings.Cut(strings.TrimLeft(strings.ReplaceAll(text, "\r\n", "\n"), "\n"), "\n\n")
	lines := strings.Split(strings.TrimSpace(head), "\n")
	words := strings.Fields(lines[0])
	if len(words) != 2 {
		return request{}, refuse(400, "bad_request", "a request begins with its method and path, such as POST %s/lease", Base)
	}
	target, err := url.ParseRequestURI(words[1])
	if err != nil {
		return request{}, refuse(400, "bad_request", "%q is no path", words[1])
	}
	r := request{method: words[0], query: target.Query(), body: []byte(body)}
	var below bool
	if r.path, below = strings.CutPrefix(target.Path, Base); !below {
		return request{}, refuse(404, "not_found", "the playground has the routes below %s alone", Base)
	}
	for _, line := range lines[1:] {
		name, value, _ := strings.Cut(line, ":")
		switch strings.ToLower(strings.TrimSpace(name)) {
		case "authorization":
			_, key, _ := strings.Cut(strings.TrimSpace(value), " ")
			agent, refused := parseAgent(key)
			if refused != nil {
				return request{}, refused
			}
			r.agent = agent
		case "accept", "content-type", "host":
		default:
			return request{}, refuse(400, "bad_request", "the playground does not know the header %q; the body comes behind an empty line", name)
		}
	}
	return r, nil
}

func parseAgent(name string) (lease.Agent, *refusal) {
	a := wire.AgentOf(name)
	if !agentName.MatchString(string(a)) {
		return "", refuse(400, "invalid_agent", "an agent is called by a-z, 0-9, dot, _ and -, such as release-a, not %q", name)
	}
	return a, nil
}

// reply is what a request came to.
type reply struct {
	status  int
	body    any
	verdict Verdict
}

func (r reply) answer() string {
	if r.status == 0 {
		return ""
	}
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	enc.SetIndent("", "  ")
	if err := enc.Encode(r.body); err != nil {
		panic(err) // all bodies are plain values
	}
	return strings.TrimSuffix(b.String(), "\n")
}

func (r reply) turn() Turn { return Turn{Status: r.status, Answer: r.answer(), Verdict: r.verdict} }

// send decides a request.
func (w *world) send(text string) reply {
	r, refused := parseRequest(text)
	if refused != nil {
		return refused.reply()
	}
	routes := []struct {
		method, path string
		serve        func(request) reply
	}{
		{"POST", "/lease", w.lease},
		{"POST", "/release", w.release},
		{"POST", "/renew", w.renew},
		{"GET", "/wait", w.queues},
		{"DELETE", "/wait", w.leave},
		{"GET", "/ledger", w.readLedger},
		{"GET", "/agents/{name}", w.agent},
	}
	allowed := false
	for _, route := range routes {
		prefix, _, named := strings.Cut(route.path, "{")
		if route.path != r.path && !(named && strings.HasPrefix(r.path, prefix)) {
			continue
		}
		if route.method == r.method {
			return route.serve(r)
		}
		allowed = true
	}
	if allowed {
		return refuse(405, "method_not_allowed", "%s is not served here", r.method).reply()
	}
	return refuse(404, "not_found", "the playground has no route %s%s", Base, r.path).reply()
}

// decode reads the body of a request, which has these fields and no others.
func (r request) decode(into any) *refusal {
	dec := json.NewDecoder(bytes.NewReader(r.body))
	dec.DisallowUnknownFields()
	err := dec.Decode(into)
	if err == nil {
		if _, rest := dec.Token(); errors.Is(rest, io.EOF) {
			return nil
		}
		err = errors.New("something follows the object")
	}
	var syntax *json.SyntaxError
	if errors.As(err, &syntax) || errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		return refuse(400, "invalid_json", "the body is not JSON: %v", err)
	}
	return refuse(400, "bad_request", "%s", strings.TrimPrefix(err.Error(), "json: "))
}

// who checks what a holder's requests have in common.
func (r request) who(resource, actor string) (lease.Resource, lease.Agent, *refusal) {
	agent, refused := parseAgent(actor)
	if refused != nil {
		return "", "", refused
	}
	if r.agent != "" && agent != r.agent {
		return "", "", refuse(403, "actor_mismatch", "this key acts for %s alone", wire.DIDOf(r.agent)).with("actorDid", wire.DIDOf(r.agent))
	}
	name, refused := called(resource)
	return name, agent, refused
}

func called(resource string) (lease.Resource, *refusal) {
	if resource == "" || len(resource) > lease.MaxResource || !utf8.ValidString(resource) {
		return "", refuse(400, "bad_request", "a resource is called by 1 to %d bytes of UTF-8", lease.MaxResource).with("limit", lease.MaxResource)
	}
	return lease.Resource(resource), nil
}

// ttl checks how long a lease shall last, in milliseconds; 0 is the default.
func ttl(ms *int64) *refusal {
	if *ms == 0 {
		*ms = wire.DefaultTTL.Milliseconds()
	}
	if *ms < lease.MinDuration.Milliseconds() || *ms > lease.MaxDuration.Milliseconds() {
		return refuse(400, "invalid_duration", "a lease lasts %d to %d ms, not %d", lease.MinDuration.Milliseconds(), lease.MaxDuration.Milliseconds(), *ms)
	}
	return nil
}

func (w *world) lease(r request) reply {
	var in wire.ResourceLeaseRequest
	if refused := r.decode(&in); refused != nil {
		return refused.reply()
	}
	resource, agent, refused := r.who(in.Resource, in.ActorDID)
	if refused == nil {
		refused = ttl(&in.TTLMs)
	}
	switch {
	case refused != nil:
	case in.Operation != "" && !slices.Contains([]lease.Operation{lease.Read, lease.Write, lease.Delete}, in.Operation):
		refused = refuse(400, "bad_request", "an operation is read, write or delete, not %q", in.Operation)
	case utf8.RuneCountInString(in.Reason) > wire.MaxReasonRunes:
		refused = refuse(400, "bad_request", "a reason has at most %d characters", wire.MaxReasonRunes)
	case in.WaitMs < 0 || in.WaitMs > wire.MaxWait.Milliseconds():
		refused = refuse(400, "bad_request", "waitMs is 0 to %d", wire.MaxWait.Milliseconds())
	}
	if refused != nil {
		return refused.reply()
	}
	ask := in.Command(resource, agent, w.newID())
	if in.WaitMs == 0 {
		return w.leased(w.do(ask))
	}
	ask.Waiting = true
	answer, err := w.do(ask)
	if held, ok := errors.AsType[*lease.Refusal](err); ok && held.Why == lease.Held && held.Position > 0 {
		w.polls = append(w.polls, poll{w.move, ask, w.now.Add(wire.Milliseconds(in.WaitMs))})
		return reply{verdict: Verdict{Word: "waits", Tone: Waits, Text: fmt.Sprintf(
			"%s waits in the request itself, %s in line, for at most %s: step the clock, or let the holder release.",
			agent, ordinal(held.Position), span(wire.Milliseconds(in.WaitMs)))}}
	}
	return w.leased(answer, err)
}

// leased says what asking for a lease came to.
func (w *world) leased(answer lease.Answer, err error) reply {
	if err != nil {
		return w.refused(err)
	}
	return reply{200, wire.ResourceLeaseGrant{OK: true, Granted: answer.Granted, Lease: wire.LeaseOf(answer.Lease, string(answer.Lease.Resource), w.now)}, w.granted(answer.Lease)}
}

func (w *world) release(r request) reply {
	var in wire.ResourceLeaseRelease
	if refused := r.decode(&in); refused != nil {
		return refused.reply()
	}
	resource, agent, refused := r.who(in.Resource, in.ActorDID)
	if refused != nil {
		return refused.reply()
	}
	answer, err := w.do(lease.Release{Resource: resource, Agent: agent, IfID: lease.ID(in.LeaseID)})
	if err != nil {
		return w.refused(err)
	}
	return reply{200, wire.ResourceLeaseReleased{OK: true, Released: true, Trust: wire.Trust(answer.Trust)}, Verdict{
		Word: "released", Tone: Yes, Text: fmt.Sprintf("%s gave %s back; its trust is %v.", agent, resource, wire.Trust(answer.Trust)),
	}}
}

func (w *world) renew(r request) reply {
	var in wire.ResourceLeaseRenewal
	if refused := r.decode(&in); refused != nil {
		return refused.reply()
	}
	resource, agent, refused := r.who(in.Resource, in.ActorDID)
	if refused == nil {
		refused = ttl(&in.TTLMs)
	}
	if refused != nil {
		return refused.reply()
	}
	return w.leased(w.do(lease.Renew{Resource: resource, Agent: agent, Duration: wire.Milliseconds(in.TTLMs)}))
}

func (w *world) leave(r request) reply {
	resource, refused := called(r.query.Get("resource"))
	if refused == nil && r.agent == "" {
		refused = refuse(401, "unauthorized", "say who leaves: Authorization: Bearer <agent>")
	}
	if refused != nil {
		return refused.reply()
	}
	_, err := w.do(lease.Leave{Resource: resource, Agent: r.agent})
	text := fmt.Sprintf("%s gave up its place at %s.", r.agent, resource)
	if err != nil {
		text = fmt.Sprintf("%s had no place at %s.", r.agent, resource)
	}
	return reply{200, wire.LeftResourceQueue{OK: true, Left: err == nil}, Verdict{Word: "left", Tone: Neutral, Text: text}}
}

func (w *world) queues(r request) reply {
	out := wire.ResourceQueues{OK: true, Queues: []wire.ResourceQueue{}, Deadlocks: []wire.Deadlock{}}
	only := r.query.Get("resource")
	statuses := w.kernel.List(w.now, "")
	if only != "" {
		resource, refused := called(only)
		if refused != nil {
			return refused.reply()
		}
		statuses = []lease.Status{w.kernel.Status(w.now, resource)}
	}
	for _, s := range statuses {
		if only != "" || len(s.Queue) > 0 {
			out.Queues = append(out.Queues, wire.QueueOf(string(s.Resource), s))
		}
	}
	for _, e := range slices.Backward(w.ledger) {
		if len(out.Deadlocks) == deadlocksMost || e.At.Before(w.now.Add(-deadlocksFor)) {
			break
		}
		if e.Kind == lease.Deadlocked && (only == "" || string(e.Resource) == only) {
			out.Deadlocks = append(out.Deadlocks, wire.DeadlockOf(e, circle(e.Cycle)))
		}
	}
	return reply{200, out, Verdict{Word: "read", Tone: Neutral, Text: "Who holds, and who waits."}}
}

func (w *world) readLedger(r request) reply {
	number := func(name string, otherwise, most int) (int, *refusal) {
		text := r.query.Get(name)
		if text == "" {
			return otherwise, nil
		}
		n, err := strconv.Atoi(text)
		if err != nil || n < 0 || n > most {
			return 0, refuse(400, "bad_request", "%s is a number from 0 to %d", name, most)
		}
		return n, nil
	}
	after, refused := number("after", 0, 1<<31-1)
	limit, refusedLimit := number("limit", ledgerDefault, ledgerMost)
	if refused == nil {
		refused = refusedLimit
	}
	if refused != nil {
		return refused.reply()
	}
	resource, actor := lease.Resource(r.query.Get("resource")), wire.AgentOf(r.query.Get("actor"))
	out := wire.LedgerPage{OK: true, Entries: []wire.LedgerEntry{}, Next: strconv.Itoa(after)}
	for seq := after + 1; seq <= len(w.ledger); seq++ {
		e := w.ledger[seq-1]
		about := []lease.Agent{e.Actor, e.Lease.Holder, e.Previous.Holder, e.Waiter.Agent}
		if resource != "" && e.Resource != resource || actor != "" && !slices.Contains(about, actor) {
			continue
		}
		if len(out.Entries) == limit {
			out.HasMore = true
			break
		}
		out.Entries = append(out.Entries, w.entry(seq))
		out.Next = strconv.Itoa(seq)
	}
	return reply{200, out, Verdict{Word: "read", Tone: Neutral, Text: "Every transition, in order."}}
}

func (w *world) agent(r request) reply {
	name, refused := parseAgent(strings.TrimPrefix(r.path, "/agents/"))
	if refused != nil {
		return refused.reply()
	}
	record, leases, waiters := w.kernel.Agent(w.now, name)
	out := wire.StandingOf(record)
	for _, l := range leases {
		out.Holds = append(out.Holds, wire.LeaseOf(l, string(l.Resource), w.now))
	}
	for _, waiter := range waiters {
		queue := w.kernel.Status(w.now, waiter.Resource).Queue
		at := slices.IndexFunc(queue, func(other lease.Waiter) bool { return other.Agent == name })
		out.WaitsFor = append(out.WaitsFor, wire.WaitingFor{Resource: string(waiter.Resource), Position: at + 1, Since: wire.Time(waiter.Since), Mode: waiter.Mode})
	}
	return reply{200, out, Verdict{Word: "read", Tone: Neutral, Text: fmt.Sprintf("%s has a trust of %v.", name, out.Trust)}}
}
