package web

import (
	"context"
	"encoding/json"
	"net/http"
	"strings"
	"unicode/utf8"

	"cowrite/doc"
	"cowrite/doc/code"
	"cowrite/lease"
	"cowrite/lease/wire"
)

// coordinationPath is where the coordination routes begin, behind Prefix. This door leases any resource, names
// agents by DID, spells codes in lower case and says in every answer whether it is ok.
const coordinationPath = "/acp/coordination"

// onCoordination says whether a path is one of this door's.
func onCoordination(path string) bool { return strings.HasPrefix(path, Prefix+coordinationPath+"/") }

// coordinates says whether a call is one of this door's.
func (c *call) coordinates() bool { return c.request != nil && onCoordination(c.request.URL.Path) }

// spelled is how the route at a path, behind Prefix, spells a code.
func spelled(c code.Code, path string) string {
	if onCoordination(Prefix + path) {
		return strings.ToLower(string(c))
	}
	return string(c)
}

// coordinationHead is a refusal at this door, but for its facts.
func coordinationHead(e *code.Error) ([]byte, error) {
	return json.Marshal(struct {
		OK      bool   `json:"ok"`
		Error   string `json:"error"`
		Message string `json:"message"`
	}{false, strings.ToLower(string(e.Code)), e.Message})
}

func (s *Server) coordinationRoutes() {
	const tag = "coordination"
	ofResources := []code.Code{code.InvalidSectionID, code.DocumentNotFound, code.DocumentDeleted, code.DocumentBlocked, code.Forbidden}
	ofActors := append([]code.Code{code.ActorMismatch, code.InvalidAgent, code.IdempotencyMismatch, code.LeaseEnded, code.ShuttingDown}, ofResources...)
	ofHolders := append([]code.Code{code.NotHolder, code.NoActiveLease}, ofActors...)
	register(s, route{
		id: "lease-resource", method: http.MethodPost, path: coordinationPath + "/lease", tag: tag, status: http.StatusOK,
		summary: "Acquire a lease on any resource",
		about: "`section:<slug>/<section id>` is the lease that the section's own route gives; any other name is its users' affair. A write or delete excludes everything; " +
			"reads share, but of locks. The holder asking again extends its lease, never shortens it. A caller who is refused has a place in the queue (first come, first served, at most 8), " +
			"unless it says `\"queue\": false`; it keeps the place for 30 s after each time it asks. `waitMs` waits for the lease in the request itself. " +
			"A request that would close a circle of waiting is refused as deadlock.",
		body:    smallBody,
		refuses: append([]code.Code{code.LeaseHeld, code.Deadlock, code.QueueFull, code.TooManyLeases, code.InvalidDuration}, ofActors...),
	}, s.leaseResource)
	register(s, route{
		id: "release-resource", method: http.MethodPost, path: coordinationPath + "/release", tag: tag, status: http.StatusOK,
		summary: "Release one's own lease",
		about:   "With `leaseId` only if it is that grant. What has expired is not released any more.",
		body:    smallBody,
		refuses: append([]code.Code{code.StaleLease}, ofHolders...),
	}, s.releaseResource)
	register(s, route{
		id: "renew-resource", method: http.MethodPost, path: coordinationPath + "/renew", tag: tag, status: http.StatusOK,
		summary: "Renew one's own lease",
		about:   "Sets its end to now plus `ttlMs`. A lease that has expired cannot be renewed.",
		body:    smallBody,
		refuses: append([]code.Code{code.InvalidDuration}, ofHolders...),
	}, s.renewResource)
	register(s, route{
		id: "read-queues", method: http.MethodGet, path: coordinationPath + "/wait", tag: tag, status: http.StatusOK,
		summary: "Who waits for what",
		about: "The queues, or the one of a resource with its holders; and the circles of waiting that were refused within the last hour, the newest first. " +
			"Sections of documents that the key does not cover are left out, and their names in a circle are empty; to a share link so is all but its document's sections.",
		refuses: ofResources,
	}, s.readQueues)
	register(s, route{
		id: "list-resources", method: http.MethodGet, path: coordinationPath + "/resources", tag: tag, status: http.StatusOK,
		summary: "Who holds what, and who waits for whom",
		about:   "All that is held or waited for. Sections of documents that the key does not cover are left out.",
	}, s.listResources)
	register(s, route{
		id: "leave-resource-queue", method: http.MethodDelete, path: coordinationPath + "/wait", tag: tag, status: http.StatusOK,
		summary: "Give up one's place in a queue",
		about:   "Having none is no error.",
		refuses: append([]code.Code{code.ShuttingDown}, ofResources...),
	}, s.leaveResourceQueue)
	register(s, route{
		id: "read-ledger", method: http.MethodGet, path: coordinationPath + "/ledger", tag: tag, status: http.StatusOK,
		summary: "Read the ledger of all leases",
		about: "Every transition of every lease and place, in order: replaying it gives the present state, but for how long places still live. " +
			"Sections of documents that the key does not cover are left out. With `last` the page has the last `limit` of all that come behind `after` and not the first, still in order.",
		refuses: append([]code.Code{code.InvalidCursor, code.InvalidAgent}, ofResources...),
	}, s.readLedger)
	register(s, route{
		id: "read-agent", method: http.MethodGet, path: coordinationPath + "/agents/{name}", tag: tag, status: http.StatusOK,
		summary: "An agent's trust, leases and places",
		about: "Trust begins at 50 and stays within 0 and 100: +0.5 for a lease that was held for a second and released, -5 for one that was left to expire. " +
			"Share links are refused: it is of the whole server.",
		refuses: []code.Code{code.InvalidAgent, code.Forbidden},
	}, s.readAgent)
	register(s, route{
		id: "list-agents", method: http.MethodGet, path: coordinationPath + "/agents", tag: tag, status: http.StatusOK,
		summary: "All agents that ever asked for a lease",
		about:   "By name. Administrators of all documents only.",
		refuses: []code.Code{code.Forbidden},
	}, s.listAgents)
	register(s, route{
		id: "check-fence", method: http.MethodPost, path: coordinationPath + "/check", tag: tag, status: http.StatusOK,
		summary: "Whether a fence is current",
		about: "For what guards a resource. `current` says that the lease with this fence lives; `stale` that a later grant which conflicts with it was made. " +
			"Neither is true of a lease that is over while nobody came after it.",
		body:    smallBody,
		refuses: ofResources,
	}, s.checkFence)
}

// coordinated finds what a caller calls a resource: any 1 to 512 bytes of UTF-8. Whoever may lease, which is
// asked for with toLease, is an editor, of the document where it is a section. Others look, a share link at
// its document alone.
func (s *Server) coordinated(ctx context.Context, name string, toLease bool) (lease.Resource, error) {
	if name == "" || len(name) > lease.MaxResource || !utf8.ValidString(name) {
		return "", code.New(code.BadRequest, "a resource is called by 1 to %d bytes of UTF-8", lease.MaxResource).With("limit", lease.MaxResource)
	}
	key := keyOf(ctx)
	rest, isSection := strings.CutPrefix(name, "section:")
	if !isSection {
		switch {
		case toLease && key.Role == doc.Viewer:
			return "", code.New(code.Forbidden, "viewers hold no leases")
		case key.IsShare():
			return "", code.New(code.Forbidden, "a share link shows one document's sections alone")
		}
		return lease.Resource(name), nil
	}
	ref, section, ok := strings.Cut(rest, "/")
	if !ok {
		return "", code.New(code.InvalidSectionID, "a section is called section:<slug>/<section id>")
	}
	meta, err := s.library.Find(ctx, key, ref)
	if err != nil {
		return "", err
	}
	sid, err := doc.ParseSectionID(section)
	if err != nil {
		return "", err
	}
	if toLease && !key.CanWrite(meta) {
		return "", code.New(code.Forbidden, "viewers hold no leases")
	}
	return doc.SectionResource(meta.ID, sid), nil
}

// theActor checks that a request is made in the name of its key's agent: the key decides who acts.
func theActor(ctx context.Context, name string) error {
	agent, err := doc.ParseAgent(name)
	if err != nil {
		return err
	}
	if own := keyOf(ctx).Agent; agent != own {
		return code.New(code.ActorMismatch, "this key acts for %s alone", wire.DIDOf(own)).With("actorDid", wire.DIDOf(own))
	}
	return nil
}

// asked is what the requests of holders have in common, checked.
func (s *Server) asked(ctx context.Context, resource, actor string) (lease.Resource, error) {
	if err := theActor(ctx, actor); err != nil {
		return "", err
	}
	return s.coordinated(ctx, resource, true)
}

type leaseResourceInput struct {
	Retriable
	Body wire.ResourceLeaseRequest
}

type resourceLeaseOutput struct{ Body wire.ResourceLeaseGrant }

func (s *Server) resourceLeaseOutput(ctx context.Context, answer lease.Answer) (*resourceLeaseOutput, error) {
	l := answer.Lease
	name, _, err := s.library.Sight(keyOf(ctx)).Name(ctx, l.Resource)
	if err != nil {
		return nil, err
	}
	return &resourceLeaseOutput{wire.ResourceLeaseGrant{OK: true, Granted: answer.Granted, Lease: wire.LeaseOf(l, name, s.leases.Now())}}, nil
}

func (s *Server) leaseResource(ctx context.Context, in *leaseResourceInput) (*resourceLeaseOutput, error) {
	resource, err := s.asked(ctx, in.Body.Resource, in.Body.ActorDID)
	if err != nil {
		return nil, err
	}
	answer, err := s.callLease(ctx, in.Retriable, leaseCall{
		name: "lease-resource", resource: resource, asked: in.Body, wait: wire.Milliseconds(in.Body.WaitMs),
		command: func(id lease.ID) lease.Command {
			return in.Body.Command(resource, keyOf(ctx).Agent, id)
		},
	})
	if err != nil {
		return nil, s.coordinationRefusal(ctx, err)
	}
	return s.resourceLeaseOutput(ctx, answer)
}

type releaseResourceInput struct {
	Retriable
	Body wire.ResourceLeaseRelease
}

type releaseResourceOutput struct{ Body wire.ResourceLeaseReleased }

func (s *Server) releaseResource(ctx context.Context, in *releaseResourceInput) (*releaseResourceOutput, error) {
	resource, err := s.asked(ctx, in.Body.Resource, in.Body.ActorDID)
	if err != nil {
		return nil, err
	}
	answer, err := s.callLease(ctx, in.Retriable, leaseCall{
		name: "release-resource", resource: resource, asked: in.Body, release: true,
		command: func(lease.ID) lease.Command {
			return lease.Release{Resource: resource, Agent: keyOf(ctx).Agent, IfID: lease.ID(in.Body.LeaseID)}
		},
	})
	if err != nil {
		return nil, s.coordinationRefusal(ctx, err)
	}
	return &releaseResourceOutput{wire.ResourceLeaseReleased{OK: true, Released: true, Trust: wire.Trust(answer.Trust)}}, nil
}

type renewResourceInput struct {
	Retriable
	Body wire.ResourceLeaseRenewal
}

func (s *Server) renewResource(ctx context.Context, in *renewResourceInput) (*resourceLeaseOutput, error) {
	resource, err := s.asked(ctx, in.Body.Resource, in.Body.ActorDID)
	if err != nil {
		return nil, err
	}
	answer, err := s.callLease(ctx, in.Retriable, leaseCall{
		name: "renew-resource", resource: resource, asked: in.Body,
		command: func(lease.ID) lease.Command {
			return lease.Renew{Resource: resource, Agent: keyOf(ctx).Agent, Duration: wire.Milliseconds(in.Body.TTLMs)}
		},
	})
	if err != nil {
		return nil, s.coordinationRefusal(ctx, err)
	}
	return s.resourceLeaseOutput(ctx, answer)
}
