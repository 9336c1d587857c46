package storetest

import (
	"testing"

	"cowrite/crdt"
	"cowrite/doc"
	"cowrite/lease"
)

// RunDurable tests that a store closed and opened again is the same. place makes room for the data of one store;
// each call of what it returns opens that data, the first time empty.
func RunDurable(t *testing.T, place func(t *testing.T) (open func() doc.Store)) {
	t.Run("everything is there after a restart", func(t *testing.T) {
		open := place(t)
		s := open()
		m := newDocument("first")
		create(t, s, m, posted(3)...)
		create(t, s, newDocument("gone"))
		changes := []doc.ChangeRow{newChange(1, "a"), newChange(2, "b")}
		must[[]doc.Event](t)(s.Append(t.Context(), m.ID, doc.Append{Expect: 3, Slug: "second", Changes: changes, Events: posted(2)}))
		must[[]doc.Event](t)(s.Append(t.Context(), m.ID, doc.Append{Expect: 5, Logged: []int64{2}}))
		gone := must[doc.Meta](t)(s.FindSlug(t.Context(), "gone"))
		must[[]doc.Event](t)(s.Append(t.Context(), gone.ID, doc.Append{Expect: 0, Events: posted(1)}))
		remove(t, s, gone.ID, day)
		commit := leased(m.ID, 42, posted(1)...)
		commit.Agents = []lease.AgentRecord{{Agent: "ada", Trust: 77, Grants: 1}}
		commit.Calls = []doc.LeaseCall{newCall("ada", "key", 1)}
		saveLeases(t, s, commit, record("lock:a", nil, newWaiter("lock:a", "bob")))
		addKey(t, s, newKey("one"))
		addKey(t, s, newKey("two"))
		if err := s.RevokeKey(t.Context(), "one", day); err != nil {
			t.Fatal(err)
		}
		before := snapshot(t, s, m.ID, gone.ID)
		closeStore(t, s)

		s = open()
		defer closeStore(t, s)
		sameJSON(t, "after the restart", snapshot(t, s, m.ID, gone.ID), before)
		appendEvents(t, s, m.ID, posted(1)...)
		verifyChain(t, allEvents(t, s, m.ID))
		if list := must[[]doc.Meta](t)(s.List(t.Context(), 0, many)); len(list) != 1 || list[0].ID != m.ID {
			t.Errorf("listed: %+v", list)
		}
		for _, slug := range []doc.Slug{"first", "second", "gone"} {
			_, err := s.Create(t.Context(), newDocument(slug), doc.Append{})
			wantError(t, err, doc.ErrSlugTaken)
		}
		late := newDocument("late")
		create(t, s, late)
		if got := metaOf(t, s, late.ID).Number; got != 3 {
			t.Errorf("the next document has number %d, want 3", got)
		}
	})
}

// snapshot is all that a store says of two documents, leases and keys.
func snapshot(t *testing.T, s doc.Store, ids ...crdt.DocumentID) map[string]any {
	t.Helper()
	all := map[string]any{
		"leases":  loadLeases(t, s),
		"ledger":  ledger(t, s, doc.LedgerQuery{Limit: many}),
		"call":    must[doc.LeaseCall](t)(s.LeaseCall(t.Context(), "ada", "key")),
		"keys":    must[[]doc.Key](t)(s.Keys(t.Context())),
		"version": must[int64](t)(s.KeysVersion(t.Context())),
		"deleted": must[[]doc.Meta](t)(s.Deleted(t.Context(), doc.DeletedPlace{}, many)),
		"list":    must[[]doc.Meta](t)(s.List(t.Context(), 0, many)),
		"first":   must[doc.Meta](t)(s.FindSlug(t.Context(), "first")),
	}
	for _, id := range ids {
		all[id.UUID()] = []any{metaOf(t, s, id), allEvents(t, s, id), allChanges(t, s, id)}
	}
	return all
}
