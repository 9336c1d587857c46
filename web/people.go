package web

import (
	"context"
	"net/http"

	"cowrite/doc"
)

func (s *Server) peopleRoutes() {
	register(s, route{
		id: "find-people", method: http.MethodGet, path: "/people", tag: "keys", status: http.StatusOK,
		summary: "Which of some authors are people",
		about: "Of names as they stand in logs, leases and texts, those of people: a key says at its creation whether it is a person's or a program's, share links are for " +
			"people, and who signs in at the page is one, until an administrator says otherwise of the key. All others count as programs.",
	}, s.findPeople)
}

type findPeopleInput struct {
	Names []string `query:"name,explode" required:"true" maxItems:"100" nullable:"false" doc:"The authors' names: ?name=ada&name=bob."`
}

type findPeopleOutput struct {
	Body struct {
		People []doc.Agent `json:"people" nullable:"false" doc:"By name."`
	} `nameHint:"People"`
}

func (s *Server) findPeople(ctx context.Context, in *findPeopleInput) (*findPeopleOutput, error) {
	among := make([]doc.Agent, len(in.Names))
	for i, name := range in.Names {
		among[i] = doc.Agent(name)
	}
	people, err := s.keyring.People(ctx, among)
	if err != nil {
		return nil, err
	}
	out := new(findPeopleOutput)
	out.Body.People = append([]doc.Agent{}, people...)
	return out, nil
}
