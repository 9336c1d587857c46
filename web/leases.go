package web

import (
	"context"
	"errors"
	"fmt"
	"math"
	"net/http"
	"strconv"
	"strings"
	"time"

	"cowrite/doc"
	"cowrite/doc/code"
	"cowrite/lease"
)

const leasesAreAdvisory = "Leases are advisory: this one asks others to keep off, and blocks nobody's writes."

// leaseAnswer is a lease as it is granted and shown.
type leaseAnswer struct {
	LeaseID     lease.ID      `json:"leaseId" doc:"Names the grant. It is no credential: the key decides who the holder is."`
	Holder      doc.Agent     `json:"holder"`
	ExpiresAt   string        `json:"expiresAt" format:"date-time" doc:"The lease is absent from this instant on."`
	ExpiresInMs int64         `json:"expiresInMs" doc:"The same as a remaining time, for clients whose clock is wrong."`
	AcquiredAt  string        `json:"acquiredAt" format:"date-time"`
	Fence       lease.Fence   `json:"fence" doc:"Rises with each grant and never falls."`
	Reason      string        `json:"reason,omitempty"`
	Mode        lease.Mode    `json:"mode" enum:"exclusive,shared"`
	SectionID   doc.SectionID `json:"sectionId"`
	Holders     []doc.Agent   `json:"holders,omitempty" nullable:"false" doc:"All holders, where several share it; holder is the one whose lease ends last."`
	Advisory    string        `json:"advisory"`
}

type leaseOutput struct{ Body leaseAnswer }

func (s *Server) leaseAnswer(l lease.Lease) leaseAnswer {
	_, sid, _ := doc.ParseSectionResource(l.Resource)
	return leaseAnswer{
		LeaseID: l.ID, Holder: l.Holder, ExpiresAt: doc.FormatTime(l.ExpiresAt), ExpiresInMs: s.remaining(l.ExpiresAt).Milliseconds(),
		AcquiredAt: doc.FormatTime(l.AcquiredAt), Fence: l.Fence, Reason: l.Reason, Mode: l.Mode, SectionID: sid, Advisory: leasesAreAdvisory,
	}
}

// remaining is the time until an instant of the keeper's clock, 0 when it is over.
func (s *Server) remaining(end time.Time) time.Duration { return max(0, end.Sub(s.leases.Now())) }

func (s *Server) leaseRoutes() {
	const tag, one = "leases (advisory)", "/documents/{slug}/sections/{sid}/lease"
	ofLeases := append([]code.Code{code.InvalidSectionID}, ofDocuments...)
	refusedGrants := []code.Code{code.SectionLeased, code.Deadlock, code.QueueFull, code.TooManyLeases, code.InvalidDuration, code.ShuttingDown}
	ofHolders := append([]code.Code{code.NotHolder, code.NoActiveLease}, ofLeases...)
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
		about: "Ends the caller's own lease; with If-Match only if it is that grant. An administrator ends anybody's with `?force=true`: " +
			"this is logged as section.lease_broken and costs the holder no trust. Leases are advisory.",
		refuses: append([]code.Code{code.StaleLease}, ofHolders...),
	}, s.releaseLease)
	register(s, route{
		id: "transfer-lease", method: http.MethodPost, path: one + "/transfer", tag: tag, status: http.StatusOK,
		summary: "Hand one's own lease to another agent",
		about:   "In one step, with no instant in between. The new lease has another leaseId and fence and the same end. The agent has to be one that may write here. Leases are advisory.",
		body:    smallBody,
		refuses: append([]code.Code{code.InvalidAgent, code.Deadlock, code.TooManyLeases}, ofHolders...),
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
	Wait string `query:"wait" doc:"Wait in the queue for at most this long, 60s at most: 25s, 500ms or a number of seconds." example:"25s"`
	Body struct {
		LeaseDurationSeconds float64 `json:"leaseDurationSeconds" minimum:"1" maximum:"300"`
		Reason               string  `json:"reason,omitempty" maxLength:"256" doc:"What for; shown to everybody."`
		Queue                bool    `json:"queue,omitempty" doc:"Take a place in the queue if refused."`
		PlaceSeconds         float64 `json:"placeSeconds,omitempty" minimum:"1" maximum:"300" doc:"How long the place lives after this ask; 30 if not given."`
	} `nameHint:"LeaseRequest"`
}

func (s *Server) acquireLease(ctx context.Context, in *acquireLeaseInput) (*leaseOutput, error) {
	resource, err := s.leasable(ctx, in.SectionPath)
	if err != nil {
		return nil, err
	}
	wait, err := parseWait(in.Wait)
	if err != nil {
		return nil, err
	}
	cmd := lease.Acquire{
		Resource: resource, Agent: keyOf(ctx).Agent, Operation: lease.Write, Duration: seconds(in.Body.LeaseDurationSeconds),
		Reason: in.Body.Reason, Queue: in.Body.Queue, Place: seconds(in.Body.PlaceSeconds),
	}
	var answer lease.Answer
	if wait > 0 {
		ctx, cancel := s.untilStop(ctx)
		defer cancel()
		answer, err = s.leases.Wait(ctx, cmd, wait)
	} else {
		answer, err = s.leases.Do(ctx, cmd)
	}
	if err != nil {
		return nil, s.leaseRefusal(ctx, err)
	}
	return &leaseOutput{s.leaseAnswer(answer.Lease)}, nil
}

// leasable finds the section's resource for a caller who may lease: whoever may write.
func (s *Server) leasable(ctx context.Context, p SectionPath) (lease.Resource, error) {
	meta, sid, err := s.findSection(ctx, p)
	if err != nil {
		return "", err
	}
	if !keyOf(ctx).CanWrite(meta) {
		return "", code.New(code.Forbidden, "viewers hold no leases")
	}
	return doc.SectionResource(meta.ID, sid), nil
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
		return nil, noActiveLease(status)
	}
	answer := s.leaseAnswer(status.Holders[0])
	answer.Holders = several(status.Holders)
	return &leaseOutput{answer}, nil
}

type renewLeaseInput struct {
	SectionPath
	Body struct {
		LeaseDurationSeconds float64 `json:"leaseDurationSeconds" minimum:"1" maximum:"300"`
	} `nameHint:"LeaseRenewal"`
}

func (s *Server) renewLease(ctx context.Context, in *renewLeaseInput) (*leaseOutput, error) {
	resource, err := s.leasable(ctx, in.SectionPath)
	if err != nil {
		return nil, err
	}
	answer, err := s.leases.Do(ctx, lease.Renew{Resource: resource, Agent: keyOf(ctx).Agent, Duration: seconds(in.Body.LeaseDurationSeconds)})
	if err != nil {
		return nil, s.leaseRefusal(ctx, err)
	}
	return &leaseOutput{s.leaseAnswer(answer.Lease)}, nil
}

type releaseLeaseInput struct {
	SectionPath
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
	resource, err := s.leasable(ctx, in.SectionPath)
	if err != nil {
		return nil, err
	}
	key := keyOf(ctx)
	var cmd lease.Command = lease.Release{Resource: resource, Agent: key.Agent, IfID: lease.ID(strings.Trim(in.IfMatch, `"`))}
	if in.Force {
		if key.Role != doc.Admin {
			return nil, code.New(code.Forbidden, "only an administrator ends a lease by force")
		}
		cmd = lease.Break{Resource: resource, By: key.Agent, Reason: in.Reason}
	}
	if _, err := s.leases.Do(ctx, cmd); err != nil {
		return nil, s.leaseRefusal(ctx, err)
	}
	out := new(releaseLeaseOutput)
	out.Body.Released = true
	return out, nil
}

type transferLeaseInput struct {
	SectionPath
	Body struct {
		To string `json:"to" doc:"Name of an agent that may write to the document."`
	} `nameHint:"LeaseTransfer"`
}

func (s *Server) transferLease(ctx context.Context, in *transferLeaseInput) (*leaseOutput, error) {
	resource, err := s.leasable(ctx, in.SectionPath)
	if err != nil {
		return nil, err
	}
	to, err := s.writer(ctx, in.Slug, in.Body.To)
	if err != nil {
		return nil, err
	}
	answer, err := s.leases.Do(ctx, lease.Transfer{Resource: resource, Agent: keyOf(ctx).Agent, To: to})
	if err != nil {
		return nil, s.leaseRefusal(ctx, err)
	}
	return &leaseOutput{s.leaseAnswer(answer.Lease)}, nil
}

// writer finds the agent of that name, which has to have a live key that may write to the document.
func (s *Server) writer(ctx context.Context, ref, name string) (doc.Agent, error) {
	agent, err := doc.ParseAgent(name)
	if err != nil {
		return "", err
	}
	meta, err := s.find(ctx, ref)
	if err != nil {
		return "", err
	}
	keys, err := s.keyring.List(ctx)
	if err != nil {
		return "", fmt.Errorf("list keys: %w", err)
	}
	for _, k := range keys {
		if k.Agent == agent && k.Live(s.now()) && k.CanWrite(meta) {
			return agent, nil
		}
	}
	return "", code.New(code.InvalidAgent, "nobody called %s may write to this document", agent)
}

type leaveQueueOutput struct {
	Body struct {
		Left bool `json:"left" doc:"Whether there was a place to give up."`
	} `nameHint:"LeftQueue"`
}

func (s *Server) leaveQueue(ctx context.Context, in *SectionPath) (*leaveQueueOutput, error) {
	resource, err := s.leasable(ctx, *in)
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
		Leases []leaseAnswer `json:"leases" nullable:"false"`
		Queues []queue       `json:"queues" nullable:"false"`
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
	out.Body.Leases, out.Body.Queues = []leaseAnswer{}, []queue{}
	for _, status := range s.leases.List(doc.SectionsPrefix(meta.ID)) {
		for _, l := range status.Holders {
			out.Body.Leases = append(out.Body.Leases, s.leaseAnswer(l))
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

// seconds is a duration that was checked to be small.
func seconds(s float64) time.Duration { return time.Duration(math.Round(s * float64(time.Second))) }

// parseWait reads ?wait=: a number of seconds, or with a unit.
func parseWait(s string) (time.Duration, error) {
	if s == "" {
		return 0, nil
	}
	d, err := time.ParseDuration(s)
	if n, numErr := strconv.ParseFloat(s, 64); numErr == nil && math.Abs(n) <= lease.MaxWait.Seconds() {
		d, err = seconds(n), nil
	}
	if err != nil || d < 0 || d > lease.MaxWait {
		return 0, code.New(code.InvalidDuration, "wait is a time from 0 to %v, such as 25s", lease.MaxWait)
	}
	return d, nil
}

// codesOfRefusals is what the keeper's refusals are called at this door.
var codesOfRefusals = map[lease.Why]code.Code{
	lease.Held:          code.SectionLeased,
	lease.NotQueued:     code.SectionLeased, // of a long poll whose place was given up meanwhile
	lease.QueueFull:     code.QueueFull,
	lease.Deadlock:      code.Deadlock,
	lease.NotHolder:     code.NotHolder,
	lease.NoActiveLease: code.NoActiveLease,
	lease.StaleLease:    code.StaleLease,
	lease.TooMany:       code.TooManyLeases,
}

// leaseRefusal says a keeper's refusal with all that an agent needs to decide what to do.
func (s *Server) leaseRefusal(ctx context.Context, err error) error {
	switch {
	case errors.Is(err, lease.ErrInvalid):
		return code.New(code.BadRequest, "%v", err)
	case errors.Is(err, lease.ErrClosed):
		return code.New(code.ShuttingDown, "the server is shutting down").Because(err)
	}
	r, ok := errors.AsType[*lease.Refusal](err)
	if !ok {
		return fmt.Errorf("ask lease keeper: %w", err)
	}
	c := codesOfRefusals[r.Why]
	switch r.Why {
	case lease.NoActiveLease:
		return noActiveLease(r.Status)
	case lease.TooMany:
		return code.New(c, "this agent holds %d leases, which is the most that one may hold", r.Limit).With("limit", r.Limit)
	case lease.NotHolder:
		return s.withHolder(code.New(c, "somebody else holds this lease"), r.Status)
	case lease.StaleLease:
		return s.withHolder(code.New(c, "the present lease is another one"), r.Status)
	}
	var refused *code.Error
	switch r.Why {
	case lease.QueueFull:
		refused = code.New(c, "another agent is editing here right now, and the queue of %d is full; leases are advisory", r.Limit).With("limit", r.Limit)
	case lease.Deadlock:
		refused = code.New(c, "waiting here would close a circle of agents that wait for each other").
			With("waitingOn", s.resourceName(ctx, r.WaitingOn)).With("cycle", s.cycle(ctx, r.Cycle))
	default:
		refused = code.New(c, "another agent is editing here right now; leases are advisory")
	}
	refused = s.withHolder(refused, r.Status).With("waiters", len(r.Status.Queue)).With("waitMs", r.Wait.Milliseconds())
	back := s.timeLeft(r.Status)
	if r.Position > 0 {
		refused = refused.With("position", r.Position)
		if r.Position <= len(r.Status.Queue) {
			back = min(back, r.Status.Queue[r.Position-1].Place/2)
		}
	}
	return retryAfter(refused, back)
}

// withHolder adds who is in the way: whoever holds the lease, the last to end if there are several, or
// for whom it is reserved.
func (s *Server) withHolder(e *code.Error, status lease.Status) *code.Error {
	switch {
	case len(status.Holders) > 0:
		l := status.Holders[0]
		e = e.With("holder", l.Holder).With("expiresAt", doc.FormatTime(l.ExpiresAt)).With("expiresInMs", s.remaining(l.ExpiresAt).Milliseconds())
		if l.Reason != "" {
			e = e.With("reason", l.Reason)
		}
		if names := several(status.Holders); names != nil {
			e = e.With("holders", names)
		}
	case isReserved(status):
		w := status.Queue[0]
		e = e.With("holder", w.Agent).With("expiresAt", doc.FormatTime(w.Reserved)).With("expiresInMs", s.remaining(w.Reserved).Milliseconds()).With("reserved", true)
	}
	return e
}

// timeLeft is when what is in the way ends by itself.
func (s *Server) timeLeft(status lease.Status) time.Duration {
	switch {
	case len(status.Holders) > 0:
		return s.remaining(status.Holders[0].ExpiresAt)
	case isReserved(status):
		return s.remaining(status.Queue[0].Reserved)
	}
	return 0
}

func isReserved(status lease.Status) bool {
	return len(status.Queue) > 0 && !status.Queue[0].Reserved.IsZero()
}

func noActiveLease(status lease.Status) error {
	err := code.New(code.NoActiveLease, "nobody holds this section's lease")
	if isReserved(status) {
		err = err.With("reservedFor", status.Queue[0].Agent)
	}
	return err
}

// several names the holders where there is more than one.
func several(holders []lease.Lease) []doc.Agent {
	if len(holders) < 2 {
		return nil
	}
	names := make([]doc.Agent, 0, len(holders))
	for _, l := range holders {
		names = append(names, l.Holder)
	}
	return names
}

// edge is one step of a circle of waiting.
type edge struct {
	Agent    doc.Agent `json:"agent"`
	Resource string    `json:"resource"`
}

func (s *Server) cycle(ctx context.Context, edges []lease.Edge) []edge {
	out := make([]edge, 0, len(edges))
	for _, e := range edges {
		out = append(out, edge{e.Agent, s.resourceName(ctx, e.Resource)})
	}
	return out
}

// resourceName is what a caller calls a resource: a section is section:<slug>/<sid>. The slug of a document
// that the caller may not read is not told.
func (s *Server) resourceName(ctx context.Context, r lease.Resource) string {
	id, sid, ok := doc.ParseSectionResource(r)
	if !ok {
		return string(r)
	}
	ref := id.String()
	if meta, err := s.library.Find(ctx, keyOf(ctx), ref); err == nil {
		ref = meta.Ref()
	}
	return "section:" + ref + "/" + string(sid)
}
