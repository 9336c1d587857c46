package web

import (
	"context"
	"errors"
	"math"
	"net/http"
	"strconv"
	"strings"
	"time"

	"cowrite/doc"
	"cowrite/doc/code"
	"cowrite/lease"
)

type leaseOutput struct{ Body doc.LeaseAnswer }

// leaseRefusal says a keeper's refusal, and in the header when to ask again.
func (s *Server) leaseRefusal(ctx context.Context, err error) error {
	again, refused := s.library.LeaseRefusal(ctx, keyOf(ctx), err)
	if again == 0 {
		return refused
	}
	return retryAfter(refused, again)
}

func (s *Server) leaseRoutes() {
	const tag, one = "leases (advisory)", "/documents/{slug}/sections/{sid}/lease"
	ofLeases := append([]code.Code{code.InvalidSectionID}, ofDocuments...)
	refusedGrants := []code.Code{code.SectionLeased, code.Deadlock, code.QueueFull, code.TooManyLeases, code.InvalidDuration, code.ShuttingDown}
	ofRetries := []code.Code{code.IdempotencyMismatch, code.LeaseEnded}
	refusedGrants = append(refusedGrants, ofRetries...)
	ofHolders := append(append([]code.Code{code.NotHolder, code.NoActiveLease}, ofRetries...), ofLeases...)
	register(s, route{
		id: "acquire-lease", method: http.MethodPost, path: one, tag: tag, status: http.StatusOK,
		summary: "Acquire a section's lease",
		about: "Says that the caller is editing this section. A lease is advisory: it tells others, it queues them, it is recorded, and it never blocks a write. " +
			"The holder asking again extends its lease, never shortens it. The section need not exist yet. When somebody else holds it the answer is 409 SECTION_LEASED " +
			"with holder, expiresAt, expiresInMs, reason, waiters and waitMs. `?wait=25s` waits in the queue; `\"queue\": true` takes a place without waiting, which lives for placeSeconds after the last ask.",
		body:    smallBody,
		refuses: append(refusedGrants, ofLeases...),
	}, s.acquireLease)
	register(s, route{
		id: "get-lease", method: http.MethodGet, path: one, tag: tag, status: http.StatusOK,
		summary: "Who holds a section's lease",
		about:   "404 NO_ACTIVE_LEASE when nobody does; with reservedFor when the free lease is kept for the head of the queue. Leases are advisory.",
		refuses: append([]code.Code{code.NoActiveLease}, ofLeases...),
	}, s.getLease)
	register(s, route{
		id: "renew-lease", method: http.MethodPatch, path: one, tag: tag, status: http.StatusOK,
		summary: "Renew one's own lease",
		about:   "Sets its end to now plus the duration. A lease that has expired cannot be renewed. Leases are advisory.",
		body:    smallBody,
		refuses: append([]code.Code{code.InvalidDuration}, ofHolders...),
	}, s.renewLease)
	register(s, route{
		id: "release-lease", method: http.MethodDelete, path: one, tag: tag, status: http.StatusOK,
		summary: "Release a lease",
		about: "Ends the caller's own lease; with If-Match only if it is that grant. An administrator ends anybody's with `?force=true`, with If-Match that grant alone: " +
			"this is logged as section.lease_broken and costs the holder no trust. Leases are advisory.",
		refuses: append([]code.Code{code.StaleLease}, ofHolders...),
	}, s.releaseLease)
	register(s, route{
		id: "transfer-lease", method: http.MethodPost, path: one + "/transfer", tag: tag, status: http.StatusOK,
		summary: "Hand one's own lease to another agent",
		about:   "In one step, with no instant in between. The new lease has another leaseId and fence and the same end. The agent has to be one that may write here. Leases are advisory.",
		body:    smallBody,
		refuses: append([]code.Code{code.InvalidAgent, code.SectionLeased, code.Deadlock, code.TooManyLeases}, ofHolders...),
	}, s.transferLease)
	register(s, route{
		id: "leave-queue", method: http.MethodDelete, path: one + "/queue", tag: tag, status: http.StatusOK,
		summary: "Give up one's place in the queue for a lease",
		about:   "Having none is no error. Leases are advisory.",
		refuses: ofLeases,
	}, s.leaveQueue)
	register(s, route{
		id: "list-leases", method: http.MethodGet, path: "/documents/{slug}/leases", tag: tag, status: http.StatusOK,
		summary: "Live leases and queues of a document",
		about:   "Leases are advisory.",
		refuses: ofDocuments,
	}, s.listLeases)
}

type acquireLeaseInput struct {
	SectionPath
	Retriable
	Wait string `query:"wait" doc:"Wait in the queue for at most this long, 60s at most: 25s, 500ms or a number of seconds." example:"25s"`
	Body struct {
		LeaseDurationSeconds float64 `json:"leaseDurationSeconds" minimum:"1" maximum:"300"`
		Reason               string  `json:"reason,omitempty" maxLength:"256" doc:"What for; shown to everybody."`
		Queue                bool    `json:"queue,omitempty" doc:"Take a place in the queue if refused."`
		PlaceSeconds         float64 `json:"placeSeconds,omitempty" minimum:"1" maximum:"300" doc:"How long the place lives after this ask; 30 if not given."`
	} `nameHint:"LeaseRequest"`
}

func (s *Server) acquireLease(ctx context.Context, in *acquireLeaseInput) (*leaseOutput, error) {
	_, resource, err := s.leasable(ctx, in.SectionPath)
	if err != nil {
		return nil, err
	}
	wait, err := parseWait(in.Wait)
	if err != nil {
		return nil, err
	}
	answer, err := s.callLease(ctx, in.Retriable, leaseCall{
		name: "acquire-lease", resource: resource, asked: in.Body, wait: wait,
		command: func(id lease.ID) lease.Command {
			return lease.Acquire{
				Resource: resource, Agent: keyOf(ctx).Agent, Operation: lease.Write, Duration: doc.Seconds(in.Body.LeaseDurationSeconds),
				Reason: in.Body.Reason, Queue: in.Body.Queue || wait > 0, Place: doc.Seconds(in.Body.PlaceSeconds), NewID: id,
			}
		},
	})
	if err != nil {
		return nil, s.leaseRefusal(ctx, err)
	}
	return &leaseOutput{s.library.LeaseAnswer(answer)}, nil
}

// leasable finds the section's resource for a caller who may lease: whoever may write.
func (s *Server) leasable(ctx context.Context, p SectionPath) (doc.Meta, lease.Resource, error) {
	meta, sid, err := s.findSection(ctx, p)
	if err != nil {
		return doc.Meta{}, "", err
	}
	if !keyOf(ctx).CanWrite(meta) {
		return doc.Meta{}, "", code.New(code.Forbidden, "viewers hold no leases")
	}
	return meta, doc.SectionResource(meta.ID, sid), nil
}

// untilStop is a context that also ends when the server is about to.
func (s *Server) untilStop(ctx context.Context) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancel(ctx)
	stop := context.AfterFunc(s.opts.Stop, cancel)
	return ctx, func() { stop(); cancel() }
}

func (s *Server) getLease(ctx context.Context, in *SectionPath) (*leaseOutput, error) {
	meta, sid, err := s.findSection(ctx, *in)
	if err != nil {
		return nil, err
	}
	status := s.leases.Status(doc.SectionResource(meta.ID, sid))
	if len(status.Holders) == 0 {
		return nil, doc.NoActiveLease(status)
	}
	answer := s.library.LeaseAnswer(lease.Answer{Lease: status.Holders[0]})
	answer.Holders = doc.SeveralHolders(status)
	return &leaseOutput{answer}, nil
}

type renewLeaseInput struct {
	SectionPath
	Retriable
	Body struct {
		LeaseDurationSeconds float64 `json:"leaseDurationSeconds" minimum:"1" maximum:"300"`
	} `nameHint:"LeaseRenewal"`
}

func (s *Server) renewLease(ctx context.Context, in *renewLeaseInput) (*leaseOutput, error) {
	_, resource, err := s.leasable(ctx, in.SectionPath)
	if err != nil {
		return nil, err
	}
	answer, err := s.callLease(ctx, in.Retriable, leaseCall{
		name: "renew-lease", resource: resource, asked: in.Body,
		command: func(lease.ID) lease.Command {
			return lease.Renew{Resource: resource, Agent: keyOf(ctx).Agent, Duration: doc.Seconds(in.Body.LeaseDurationSeconds)}
		},
	})
	if err != nil {
		return nil, s.leaseRefusal(ctx, err)
	}
	return &leaseOutput{s.library.LeaseAnswer(answer)}, nil
}

type releaseLeaseInput struct {
	SectionPath
	Retriable
	IfMatch string `header:"If-Match" doc:"A leaseId: refuse with STALE_LEASE if the present lease is another one."`
	Force   bool   `query:"force" doc:"End the lease whoever holds it. Administrators only."`
	Reason  string `query:"reason" maxLength:"256" doc:"Of a forced release, for the log and the former holder."`
}

type releaseLeaseOutput struct {
	Body struct {
		Released bool `json:"released"`
	} `nameHint:"Released"`
}

func (s *Server) releaseLease(ctx context.Context, in *releaseLeaseInput) (*releaseLeaseOutput, error) {
	_, resource, err := s.leasable(ctx, in.SectionPath)
	if err != nil {
		return nil, err
	}
	key := keyOf(ctx)
	id := lease.ID(strings.Trim(in.IfMatch, `"`))
	var cmd lease.Command = lease.Release{Resource: resource, Agent: key.Agent, IfID: id}
	if in.Force {
		if key.Role != doc.Admin {
			return nil, code.New(code.Forbidden, "only an administrator ends a lease by force")
		}
		cmd = lease.Break{Resource: resource, By: key.Agent, IfID: id, Reason: in.Reason}
	}
	_, err = s.callLease(ctx, in.Retriable, leaseCall{
		name: "release-lease", resource: resource, asked: cmd, release: true,
		command: func(lease.ID) lease.Command { return cmd },
	})
	if err != nil {
		return nil, s.leaseRefusal(ctx, err)
	}
	out := new(releaseLeaseOutput)
	out.Body.Released = true
	return out, nil
}

type transferLeaseInput struct {
	SectionPath
	Retriable
	Body struct {
		To string `json:"to" doc:"Name of an agent that may write to the document."`
	} `nameHint:"LeaseTransfer"`
}

func (s *Server) transferLease(ctx context.Context, in *transferLeaseInput) (*leaseOutput, error) {
	meta, resource, err := s.leasable(ctx, in.SectionPath)
	if err != nil {
		return nil, err
	}
	to, err := s.library.Writer(ctx, meta, in.Body.To)
	if err != nil {
		return nil, err
	}
	answer, err := s.callLease(ctx, in.Retriable, leaseCall{
		name: "transfer-lease", resource: resource, asked: in.Body,
		command: func(id lease.ID) lease.Command {
			return lease.Transfer{Resource: resource, Agent: keyOf(ctx).Agent, To: to, NewID: id}
		},
	})
	if err != nil {
		return nil, s.leaseRefusal(ctx, err)
	}
	return &leaseOutput{s.library.LeaseAnswer(answer)}, nil
}

type leaveQueueOutput struct {
	Body struct {
		Left bool `json:"left" doc:"Whether there was a place to give up."`
	} `nameHint:"LeftQueue"`
}

func (s *Server) leaveQueue(ctx context.Context, in *SectionPath) (*leaveQueueOutput, error) {
	_, resource, err := s.leasable(ctx, *in)
	if err != nil {
		return nil, err
	}
	_, err = s.leases.Do(ctx, lease.Leave{Resource: resource, Agent: keyOf(ctx).Agent})
	r, refused := errors.AsType[*lease.Refusal](err)
	if err != nil && !(refused && r.Why == lease.NotQueued) {
		return nil, s.leaseRefusal(ctx, err)
	}
	out := new(leaveQueueOutput)
	out.Body.Left = err == nil
	return out, nil
}

type listLeasesOutput struct {
	Body struct {
		Leases []doc.LeaseAnswer `json:"leases" nullable:"false"`
		Queues []queue           `json:"queues" nullable:"false"`
	} `nameHint:"LeaseList"`
}

type queue struct {
	SectionID   doc.SectionID `json:"sectionId"`
	ReservedFor doc.Agent     `json:"reservedFor,omitempty" doc:"The lease is free and kept for this waiter."`
	Waiters     []waiter      `json:"waiters" nullable:"false" doc:"First come, first served."`
}

type waiter struct {
	Agent    doc.Agent `json:"agent"`
	Position int       `json:"position" doc:"From 1."`
	Since    string    `json:"since" format:"date-time"`
}

func (s *Server) listLeases(ctx context.Context, in *DocumentPath) (*listLeasesOutput, error) {
	meta, err := s.find(ctx, in.Slug)
	if err != nil {
		return nil, err
	}
	out := new(listLeasesOutput)
	out.Body.Leases, out.Body.Queues = []doc.LeaseAnswer{}, []queue{}
	for _, status := range s.leases.List(doc.SectionsPrefix(meta.ID)) {
		for _, l := range status.Holders {
			out.Body.Leases = append(out.Body.Leases, s.library.LeaseAnswer(lease.Answer{Lease: l}))
		}
		if len(status.Queue) == 0 {
			continue
		}
		_, sid, _ := doc.ParseSectionResource(status.Resource)
		q := queue{SectionID: sid, Waiters: make([]waiter, 0, len(status.Queue))}
		if !status.Queue[0].Reserved.IsZero() {
			q.ReservedFor = status.Queue[0].Agent
		}
		for i, w := range status.Queue {
			q.Waiters = append(q.Waiters, waiter{w.Agent, i + 1, doc.FormatTime(w.Since)})
		}
		out.Body.Queues = append(out.Body.Queues, q)
	}
	return out, nil
}

// parseWait reads ?wait=: a number of seconds, or with a unit.
func parseWait(s string) (time.Duration, error) {
	if s == "" {
		return 0, nil
	}
	d, err := time.ParseDuration(s)
	if n, numErr := strconv.ParseFloat(s, 64); numErr == nil && math.Abs(n) <= lease.MaxWait.Seconds() {
		d, err = doc.Seconds(n), nil
	}
	if err != nil || d < 0 || d > lease.MaxWait {
		return 0, code.New(code.InvalidDuration, "wait is a time from 0 to %v, such as 25s", lease.MaxWait)
	}
	return d, nil
}
