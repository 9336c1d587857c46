package web

import (
	"cmp"
	"context"
	"slices"
	"time"
	"unicode/utf8"

	"cowrite/crdt"
	"cowrite/doc"
	"cowrite/doc/code"
	"cowrite/lease"
	"cowrite/lease/wire"
)

// outlined is a document as tools show it.
type outlined struct {
	Document  doc.Slug          `json:"document,omitempty"`
	Title     string            `json:"title,omitempty"`
	Version   crdt.Version      `json:"version,omitempty"`
	LastSeq   string            `json:"lastSeq,omitempty"`
	Sections  []outlinedSection `json:"sections,omitempty"`
	Documents []documentEntry   `json:"documents,omitempty"`
	Next      string            `json:"next,omitempty"`
}

type outlinedSection struct {
	ID         doc.SectionID `json:"id"`
	Heading    string        `json:"heading,omitempty"`
	Level      int           `json:"level,omitempty"`
	Characters int           `json:"characters"`
	Text       *string       `json:"text,omitempty"`
	Lease      *HeldBy       `json:"lease,omitempty"`
}

func (s *Server) outlined(snap doc.Snapshot, withText bool) outlined {
	out := outlined{Document: doc.Slug(snap.Meta.Ref()), Title: snap.Meta.Title, Version: snap.Version, LastSeq: snap.Meta.LastSeq.String()}
	for _, sec := range snap.Sections {
		o := outlinedSection{ID: sec.ID, Heading: sec.Heading, Level: sec.Level, Characters: utf8.RuneCountInString(sec.Text)}
		if withText {
			o.Text = &sec.Text
		}
		if holders := s.leases.Status(doc.SectionResource(snap.Meta.ID, sec.ID)).Holders; len(holders) > 0 {
			held := s.heldBy(holders[0])
			o.Lease = &held
		}
		out.Sections = append(out.Sections, o)
	}
	return out
}

type outlineArguments struct {
	Document string `json:"document,omitempty" doc:"Slug or id."`
	Next     string `json:"next,omitempty" doc:"Of the list before."`
}

func (s *Server) toolOutline(ctx context.Context, in outlineArguments) (outlined, error) {
	if in.Document == "" {
		after, err := parseNext(in.Next)
		if err != nil {
			return outlined{}, err
		}
		list, err := s.listDocuments(ctx, &listDocumentsInput{Limit: listedDocuments, After: after})
		if err != nil {
			return outlined{}, err
		}
		return outlined{Documents: list.Body.Documents, Next: list.Body.Next}, nil
	}
	meta, err := s.mcpDocument(ctx, in.Document)
	if err != nil {
		return outlined{}, err
	}
	snap, err := s.library.Read(ctx, keyOf(ctx), meta.ID)
	if err != nil {
		return outlined{}, err
	}
	return s.outlined(snap, false), nil
}

type readArgumentsOf struct {
	Document string `json:"document"`
	Section  string `json:"section,omitempty"`
	Version  string `json:"version,omitempty" doc:"As it was then."`
}

func (s *Server) toolRead(ctx context.Context, in readArgumentsOf) (outlined, error) {
	meta, err := s.mcpDocument(ctx, in.Document)
	if err != nil {
		return outlined{}, err
	}
	snap, err := s.snapshot(ctx, meta, crdt.Version(in.Version))
	if err != nil {
		return outlined{}, err
	}
	if in.Section != "" {
		sid, err := doc.ParseSectionID(in.Section)
		if err != nil {
			return outlined{}, err
		}
		snap.Sections = slices.DeleteFunc(snap.Sections, func(sec doc.Section) bool { return sec.ID != sid })
		if len(snap.Sections) == 0 {
			return outlined{}, code.New(code.SectionNotFound, "there is no section %s", sid)
		}
	}
	return s.outlined(snap, true), nil
}

type editArguments struct {
	Document       string            `json:"document"`
	Section        string            `json:"section"`
	Text           *string           `json:"text,omitempty" doc:"Needs base."`
	Ops            []editOp          `json:"ops,omitempty" nullable:"false"`
	Replace        []editReplacement `json:"replace,omitempty" nullable:"false"`
	Base           *string           `json:"base,omitempty" doc:"Version that you read, or \"current\"."`
	Fence          lease.Fence       `json:"fence,omitempty" doc:"Of your lease."`
	IdempotencyKey string            `json:"idempotencyKey,omitempty" doc:"Makes retries count once."`
}

func (s *Server) toolEdit(ctx context.Context, in editArguments) (written, error) {
	path, err := s.mcpPath(ctx, in.Document)
	if err != nil {
		return written{}, err
	}
	out, err := s.editSection(ctx, &editSectionInput{
		SectionPath: SectionPath{path, in.Section}, Once: Once{in.IdempotencyKey},
		Body: SectionEdit{in.Text, in.Ops, in.Replace, in.Base, in.Fence},
	})
	if err != nil {
		return written{}, err
	}
	return out.Body, nil
}

type createArguments struct {
	Document       string `json:"document,omitempty"`
	Section        string `json:"section,omitempty" doc:"Id of the new section."`
	After          string `json:"after,omitempty"`
	Slug           string `json:"slug,omitempty" doc:"Of a new document."`
	Title          string `json:"title,omitempty"`
	Text           string `json:"text" doc:"Markdown with its heading line."`
	IdempotencyKey string `json:"idempotencyKey,omitempty"`
}

// created is what create made: a document with its sections, or one section.
type created struct {
	Document doc.Slug        `json:"document"`
	Version  crdt.Version    `json:"version"`
	Sections []doc.SectionID `json:"sections"`
	Repeated bool            `json:"repeated,omitempty"`
	Advisory *doc.Advisory   `json:"advisory,omitempty"`
}

func (s *Server) toolCreate(ctx context.Context, in createArguments) (created, error) {
	if in.Document == "" {
		if in.Section != "" || in.After != "" {
			return created{}, code.New(code.BadRequest, `"section" and "after" are of a section: say in which "document"`)
		}
		n := &createDocumentInput{Once: Once{in.IdempotencyKey}}
		n.Body.Slug, n.Body.Title, n.Body.Markdown = in.Slug, in.Title, in.Text
		out, err := s.createDocument(ctx, n)
		if err != nil {
			return created{}, err
		}
		c := created{Version: out.Body.Version, Sections: []doc.SectionID{}}
		if out.Body.Slug != nil {
			c.Document = *out.Body.Slug
		}
		for _, sec := range out.Body.Sections {
			c.Sections = append(c.Sections, sec.ID)
		}
		return c, nil
	}
	if in.Slug != "" || in.Title != "" {
		return created{}, code.New(code.BadRequest, `"slug" and "title" are of a new document: leave "document" out`)
	}
	meta, err := s.mcpDocument(ctx, in.Document)
	if err != nil {
		return created{}, err
	}
	n := &addSectionInput{DocumentPath: DocumentPath{meta.ID.String()}, Once: Once{in.IdempotencyKey}}
	n.Body.ID, n.Body.After, n.Body.Text = in.Section, in.After, in.Text
	out, err := s.addSection(ctx, n)
	if err != nil {
		return created{}, err
	}
	w := out.Body
	return created{doc.Slug(meta.Ref()), w.Version, []doc.SectionID{w.ID}, w.Repeated, w.Advisory}, nil
}

type acquireArguments struct {
	Document    string  `json:"document"`
	Section     string  `json:"section"`
	Seconds     float64 `json:"seconds,omitempty" minimum:"1" maximum:"300" doc:"Time to live, at most 300; 60."`
	Reason      string  `json:"reason,omitempty" maxLength:"256"`
	WaitSeconds float64 `json:"waitSeconds,omitempty" minimum:"0" maximum:"60" doc:"At most 60."`
	Queue       bool    `json:"queue,omitempty" doc:"Take a place, do not wait."`
}

func (s *Server) toolAcquire(ctx context.Context, in acquireArguments) (doc.LeaseAnswer, error) {
	path, err := s.mcpPath(ctx, in.Document)
	if err != nil {
		return doc.LeaseAnswer{}, err
	}
	ask := &acquireLeaseInput{SectionPath: SectionPath{path, in.Section}, Wait: doc.Seconds(in.WaitSeconds).String()}
	ask.Body.LeaseDurationSeconds, ask.Body.Reason, ask.Body.Queue = cmp.Or(in.Seconds, 60), in.Reason, in.Queue
	out, err := s.acquireLease(ctx, ask)
	if err != nil {
		return doc.LeaseAnswer{}, err
	}
	return out.Body, nil
}

type releaseArguments struct {
	Document string `json:"document"`
	Section  string `json:"section"`
	LeaseID  string `json:"leaseId,omitempty" doc:"Only if it is this grant."`
	Leave    bool   `json:"leave,omitempty" doc:"Your place instead."`
}

// released says what was given up, a lease or a place.
type released struct {
	Released bool  `json:"released"`
	Left     *bool `json:"left,omitempty"` // of a place: whether there was one
}

func (s *Server) toolRelease(ctx context.Context, in releaseArguments) (released, error) {
	path, err := s.mcpPath(ctx, in.Document)
	if err != nil {
		return released{}, err
	}
	section := SectionPath{path, in.Section}
	if in.Leave {
		out, err := s.leaveQueue(ctx, &section)
		if err != nil {
			return released{}, err
		}
		return released{Left: &out.Body.Left}, nil
	}
	out, err := s.releaseLease(ctx, &releaseLeaseInput{SectionPath: section, IfMatch: in.LeaseID})
	if err != nil {
		return released{}, err
	}
	return released{Released: out.Body.Released}, nil
}

type leasesArguments struct {
	Document string `json:"document"`
	Section  string `json:"section,omitempty"`
}

type leaseList struct {
	Leases []doc.LeaseAnswer `json:"leases"`
	Queues []queue           `json:"queues"`
}

func (s *Server) toolLeases(ctx context.Context, in leasesArguments) (leaseList, error) {
	path, err := s.mcpPath(ctx, in.Document)
	if err != nil {
		return leaseList{}, err
	}
	all, err := s.listLeases(ctx, &path)
	if err != nil || in.Section == "" {
		return leaseListOf(all), err
	}
	sid, err := doc.ParseSectionID(in.Section)
	if err != nil {
		return leaseList{}, err
	}
	list := leaseListOf(all)
	list.Leases = slices.DeleteFunc(list.Leases, func(l doc.LeaseAnswer) bool { return l.SectionID != sid })
	list.Queues = slices.DeleteFunc(list.Queues, func(q queue) bool { return q.SectionID != sid })
	return list, nil
}

func leaseListOf(out *listLeasesOutput) leaseList {
	if out == nil {
		return leaseList{}
	}
	return leaseList{out.Body.Leases, out.Body.Queues}
}

type eventsArguments struct {
	Document    string  `json:"document"`
	Since       string  `json:"since,omitempty" doc:"A seq."`
	Limit       int     `json:"limit,omitempty" minimum:"1" maximum:"1000"`
	WaitSeconds float64 `json:"waitSeconds,omitempty" minimum:"0" maximum:"60" doc:"For news, at most 60."`
}

type eventPage struct {
	Events    []doc.Event `json:"events"`
	HasMore   bool        `json:"has_more"`
	NextSince string      `json:"next_since"`
}

func (s *Server) toolEvents(ctx context.Context, in eventsArguments) (eventPage, error) {
	meta, err := s.mcpDocument(ctx, in.Document)
	if err != nil {
		return eventPage{}, err
	}
	ctx, end, err := s.whileKeyLives(ctx)
	if err != nil {
		return eventPage{}, err
	}
	defer end()
	wake, stop := s.library.Watch(meta.ID) // before the first look: nothing is missed in between
	defer stop()
	timer := time.NewTimer(doc.Seconds(in.WaitSeconds))
	defer timer.Stop()
	look := &listEventsInput{DocumentPath: DocumentPath{meta.ID.String()}, Since: in.Since, Limit: cmp.Or(in.Limit, 100)}
	for waiting := true; ; {
		out, err := s.listEvents(ctx, look)
		if err != nil {
			return eventPage{}, err
		}
		if len(out.Body.Events) > 0 || !waiting {
			return eventPage{out.Body.Events, out.Body.HasMore, out.Body.NextSince}, nil
		}
		select {
		case <-wake:
		case <-timer.C:
			waiting = false
		case <-s.opts.Stop.Done():
			waiting = false
		case <-ctx.Done():
			return eventPage{}, context.Cause(ctx)
		}
	}
}

type postArguments struct {
	Document       string  `json:"document"`
	Message        payload `json:"message"`
	IdempotencyKey string  `json:"idempotencyKey,omitempty"`
}

type posted struct {
	Seq       string `json:"seq"`
	ID        string `json:"id"`
	CreatedAt string `json:"created_at"`
}

func (s *Server) toolPost(ctx context.Context, in postArguments) (posted, error) {
	path, err := s.mcpPath(ctx, in.Document)
	if err != nil {
		return posted{}, err
	}
	out, err := s.postEvent(ctx, &postEventInput{path, Once{in.IdempotencyKey}, in.Message})
	if err != nil {
		return posted{}, err
	}
	return posted{out.Body.Seq.String(), out.Body.ID.String(), doc.FormatTime(out.Body.At)}, nil
}

type coordinationAcquireArguments struct {
	Resource  string          `json:"resource"`
	ActorDID  string          `json:"actorDid,omitempty"`
	TTLMs     int64           `json:"ttlMs,omitempty" minimum:"1000" maximum:"300000" doc:"At most 300000; 30000."`
	Operation lease.Operation `json:"operation,omitempty" enum:"read,write,delete"`
	Reason    string          `json:"reason,omitempty" maxLength:"256"`
	WaitMs    int64           `json:"waitMs,omitempty" minimum:"0" maximum:"60000"`
	Queue     *bool           `json:"queue,omitempty" doc:"false: no place."`
}

func (s *Server) toolCoordinationAcquire(ctx context.Context, in coordinationAcquireArguments) (wire.ResourceLeaseGrant, error) {
	out, err := s.leaseResource(ctx, &leaseResourceInput{Body: wire.ResourceLeaseRequest{
		Resource: in.Resource, ActorDID: cmp.Or(in.ActorDID, string(keyOf(ctx).Agent)), TTLMs: cmp.Or(in.TTLMs, wire.DefaultTTL.Milliseconds()),
		Operation: cmp.Or(in.Operation, lease.Write), Reason: in.Reason, WaitMs: in.WaitMs, Queue: in.Queue,
	}})
	if err != nil {
		return wire.ResourceLeaseGrant{}, err
	}
	return out.Body, nil
}

type coordinationReleaseArguments struct {
	Resource string `json:"resource"`
	ActorDID string `json:"actorDid,omitempty"`
	LeaseID  string `json:"leaseId,omitempty"`
	Leave    bool   `json:"leave,omitempty" doc:"Your place instead."`
}

// releasedResource is what giving up a lease comes to, or a place.
type releasedResource struct {
	wire.ResourceLeaseReleased
	Left *bool `json:"left,omitempty"` // of a place: whether there was one
}

func (s *Server) toolCoordinationRelease(ctx context.Context, in coordinationReleaseArguments) (releasedResource, error) {
	if in.Leave {
		out, err := s.leaveResourceQueue(ctx, &leaveResourceQueueInput{in.Resource})
		if err != nil {
			return releasedResource{}, err
		}
		return releasedResource{wire.ResourceLeaseReleased{OK: true}, &out.Body.Left}, nil
	}
	out, err := s.releaseResource(ctx, &releaseResourceInput{Body: wire.ResourceLeaseRelease{
		Resource: in.Resource, ActorDID: cmp.Or(in.ActorDID, string(keyOf(ctx).Agent)), LeaseID: in.LeaseID,
	}})
	if err != nil {
		return releasedResource{}, err
	}
	return releasedResource{ResourceLeaseReleased: out.Body}, nil
}

type coordinationWaitArguments struct {
	Resource string `json:"resource,omitempty"`
}

func (s *Server) toolCoordinationWait(ctx context.Context, in coordinationWaitArguments) (wire.ResourceQueues, error) {
	out, err := s.readQueues(ctx, &readQueuesInput{in.Resource})
	if err != nil {
		return wire.ResourceQueues{}, err
	}
	return out.Body, nil
}
