package agentsocket

import (
	"cowrite/doc"
	"cowrite/lease"
	"cowrite/sync/agent"
)

// leaseRefusal says a keeper's refusal.
func (s *socket) leaseRefusal(err error) error {
	_, refused := s.Library.LeaseRefusal(s.work, s.key, err)
	return refused
}

// resourceName is what the key's owner calls a resource; what cannot be looked up goes by its inner name.
func (s *socket) resourceName(sight *doc.Sight, r lease.Resource) string {
	name, _, err := sight.Name(s.work, r)
	if err != nil {
		return string(r)
	}
	return name
}

// lostOf says what leases ended without their holder's doing.
func (s *socket) lostOf(events []lease.Event) *agent.LeaseLost {
	sight := s.Library.Sight(s.key)
	out := new(agent.LeaseLost)
	for _, e := range events {
		_, sid, _ := doc.ParseSectionResource(e.Resource)
		l := agent.LostLease{
			LeaseID: e.Lease.ID, Resource: s.resourceName(sight, e.Resource), SectionID: agent.SectionID(sid), Fence: e.Lease.Fence,
			Action: e.Kind, Reason: e.Reason, At: doc.FormatTime(e.At),
		}
		if e.Actor != doc.System {
			l.By = string(e.Actor)
		}
		out.LeaseLost = append(out.LeaseLost, l)
	}
	return out
}
