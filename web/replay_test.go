package web

import (
	"fmt"
	"slices"
	"strings"

	"cowrite/doc"
	"cowrite/lease"
	"cowrite/lease/wire"
)

// actionsOfTypes is what a document's log calls the ledger's actions.
var actionsOfTypes = map[string]lease.Kind{
	"section.leased": lease.Granted, "section.lease_renewed": lease.Renewed, "section.lease_released": lease.Released,
	"section.lease_expired": lease.Expired, "section.lease_broken": lease.Broken, "section.lease_ended": lease.Ended,
	"section.lease_transferred": lease.Handed, "section.lease_queued": lease.Queued, "section.lease_unqueued": lease.Unqueued,
	"section.lease_reserved": lease.Reserved, "section.lease_lapsed": lease.Lapsed, "section.lease_deadlock": lease.Deadlocked,
}

// replay is what a reader of the ledger makes of it, entry by entry, by the words of the API's description alone.
type replay struct {
	resources map[string]*replayedResource
	trust     map[string]any
	kinds     map[string]int
	sections  map[string][]string // by document: what happened to its sections
}

type replayedResource struct {
	held    []map[string]any
	waiters []map[string]any
}

func heldLine(holder, id string, fence uint64, mode, end string) string {
	return fmt.Sprintf("%s holds it as %s, fence %d, %s until %s", holder, id, fence, mode, end)
}

func waitLine(agent, mode, since, reserved string) string {
	return fmt.Sprintf("%s waits, %s since %s, reserved until %s", agent, mode, since, reserved)
}

// lines is the state in the form in which it is compared: by resource, the holder whose lease ends last first.
func (r *replay) lines() map[string][]string {
	lines := map[string][]string{}
	for name, res := range r.resources {
		held := slices.Clone(res.held)
		slices.SortStableFunc(held, func(a, b map[string]any) int {
			return strings.Compare(b["expiresAt"].(string), a["expiresAt"].(string))
		})
		for _, l := range held {
			lines[name] = append(lines[name], heldLine(l["holder"].(string), l["leaseId"].(string), uint64(l["fence"].(float64)), l["mode"].(string), l["expiresAt"].(string)))
		}
		for _, q := range res.waiters {
			reserved, _ := q["reservedUntil"].(string)
			lines[name] = append(lines[name], waitLine(q["actorDid"].(string), q["mode"].(string), q["since"].(string), reserved))
		}
	}
	return lines
}

// present is the same of what the keeper says.
func (w *world) present() map[string][]string {
	w.t.Helper()
	sight := w.library.Sight(doc.Key{Role: doc.Admin, Pattern: "*"})
	lines := map[string][]string{}
	for _, s := range w.keeper.List("") {
		name, _, err := sight.Name(w.t.Context(), s.Resource)
		w.must(err)
		for _, l := range s.Holders {
			lines[name] = append(lines[name], heldLine(string(wire.DIDOf(l.Holder)), string(l.ID), uint64(l.Fence), string(l.Mode), doc.FormatTime(l.ExpiresAt)))
		}
		for _, q := range s.Queue {
			lines[name] = append(lines[name], waitLine(string(wire.DIDOf(q.Agent)), string(q.Mode), doc.FormatTime(q.Since), formatOptional(q.Reserved)))
		}
	}
	return lines
}

// replayed reads the whole ledger in pages.
func (w *world) replayed() *replay {
	w.t.Helper()
	r := &replay{map[string]*replayedResource{}, map[string]any{}, map[string]int{}, map[string][]string{}}
	after, last := "0", 0
	for more := true; more; {
		page := w.ok(root, "GET", coordination+"/ledger?limit=100&after="+after, "")
		for _, e := range page.body["entries"].([]any) {
			entry := e.(map[string]any)
			last++
			if entry["seq"] != fmt.Sprint(last) || entry["event"] != "coordination.lease" {
				w.t.Fatalf("entry %d is %v", last, entry)
			}
			r.add(entry)
		}
		after, more = page.str("next"), page.body["hasMore"].(bool)
	}
	return r
}

func (r *replay) add(entry map[string]any) {
	name, action := entry["resource"].(string), entry["action"].(string)
	r.kinds[action]++
	if ref, ok := strings.CutPrefix(name, "section:"); ok {
		document, section, _ := strings.Cut(ref, "/")
		r.sections[document] = append(r.sections[document], fmt.Sprint(action, " ", section, " ", entry["at"]))
	}
	res := r.resources[name]
	if res == nil {
		res = &replayedResource{}
		r.resources[name] = res
	}
	l, _ := entry["lease"].(map[string]any)
	previous, _ := entry["previous"].(map[string]any)
	waiter, _ := entry["waiter"].(map[string]any)
	// put makes the lease the one in place of another, or the last.
	put := func(former map[string]any) {
		at := slices.IndexFunc(res.held, func(h map[string]any) bool { return former != nil && h["leaseId"] == former["leaseId"] })
		if at < 0 {
			res.held = append(res.held, l)
			return
		}
		res.held[at] = l
	}
	leave := func(agent any) {
		res.waiters = slices.DeleteFunc(res.waiters, func(q map[string]any) bool { return q["actorDid"] == agent })
	}
	if trust, ok := entry["trust"]; ok {
		r.trust[strings.TrimPrefix(l["holder"].(string), "did:cowrite:")] = trust
	}
	switch lease.Kind(action) {
	case lease.Granted, lease.Handed:
		put(previous)
		leave(l["holder"])
		if previous != nil {
			leave(previous["holder"])
		}
	case lease.Renewed:
		put(l)
	case lease.Released, lease.Expired, lease.Broken, lease.Ended:
		res.held = slices.DeleteFunc(res.held, func(h map[string]any) bool { return h["leaseId"] == l["leaseId"] })
	case lease.Queued:
		at := len(res.waiters)
		holds := slices.ContainsFunc(res.held, func(h map[string]any) bool { return h["holder"] == waiter["actorDid"] })
		if holds { // an upgrade goes behind the reservations alone
			if i := slices.IndexFunc(res.waiters, func(q map[string]any) bool { return q["reservedUntil"] == nil }); i >= 0 {
				at = i
			}
		}
		res.waiters = slices.Insert(res.waiters, at, waiter)
	case lease.Unqueued, lease.Lapsed:
		leave(waiter["actorDid"])
	case lease.Reserved:
		if i := slices.IndexFunc(res.waiters, func(q map[string]any) bool { return q["actorDid"] == waiter["actorDid"] }); i >= 0 {
			res.waiters[i] = waiter
		}
	}
	if len(res.held)+len(res.waiters) == 0 {
		delete(r.resources, name)
	}
}
