package doc

import (
	"fmt"

	"cowrite/lease"
)

// Advisory tells the writer of a section what it may not know of the leases there. Nothing is refused because of it.
type Advisory struct {
	Kind         string      `json:"kind" enum:"leased,stale_fence" doc:"leased: somebody else holds the lease. stale_fence: a later grant than the write's was made."`
	Holder       Agent       `json:"holder,omitempty" doc:"Who else holds the lease, if anybody does."`
	LeaseID      lease.ID    `json:"leaseId,omitempty"`
	ExpiresAt    string      `json:"expiresAt,omitempty" format:"date-time"`
	ExpiresInMs  *int64      `json:"expiresInMs,omitempty"`
	Reason       string      `json:"reason,omitempty"`
	Fence        lease.Fence `json:"fence,omitempty" doc:"Of a stale fence: the write's."`
	SupersededBy lease.Fence `json:"supersededBy,omitempty" doc:"Of a stale fence: the newest one that conflicts with it."`
	Message      string      `json:"message"`
}

// Advise is what the writer is told, nil where there is nothing to tell.
func (l *Library) Advise(w Written) *Advisory {
	if w.Advisory == nil && w.Stale == nil {
		return nil
	}
	var a Advisory
	if held := w.Advisory; held != nil {
		left := l.Remaining(held.ExpiresAt).Milliseconds()
		a = Advisory{
			Kind: "leased", Holder: held.Holder, LeaseID: held.ID, ExpiresAt: FormatTime(held.ExpiresAt), ExpiresInMs: &left, Reason: held.Reason,
			Message: fmt.Sprintf("%s is editing this section right now; your write was merged", held.Holder),
		}
	}
	if stale := w.Stale; stale != nil {
		a.Kind, a.Fence, a.SupersededBy = "stale_fence", stale.Fence, stale.SupersededBy
		a.Message = fmt.Sprintf("fence %d is stale, %d was granted since; your write was merged", stale.Fence, stale.SupersededBy)
	}
	return &a
}
