package web

import (
	"context"
	"net/http"

	"cowrite/crdt"
	"cowrite/doc"
	"cowrite/doc/code"
)

func (s *Server) blameRoutes() {
	register(s, route{
		id: "blame-section", method: http.MethodGet, path: "/documents/{slug}/sections/{sid}/blame", tag: "history", status: http.StatusOK,
		summary: "Who wrote which part of a section",
		about:   "The text of a version from its beginning to its end, by who inserted it. What was deleted is in none of the ranges.",
		refuses: append([]code.Code{code.InvalidSectionID, code.SectionNotFound, code.InvalidVersion, code.Busy, code.ShuttingDown}, ofDocuments...),
	}, s.blameSection)
}

type blameSectionInput struct {
	SectionPath
	Version string `query:"version" doc:"The version whose text is asked about; the present one if not given."`
}

type blameSectionOutput struct {
	Body struct {
		Version crdt.Version `json:"version" doc:"The one whose text the ranges lie in."`
		Ranges  []blameRange `json:"ranges" nullable:"false" doc:"In order and without gaps."`
	} `nameHint:"SectionBlame"`
}

// blameRange is a passage by one author.
type blameRange struct {
	At     int       `json:"at" doc:"Where it begins, in code points."`
	Length int       `json:"length" doc:"In code points."`
	Agent  doc.Agent `json:"agent,omitempty" doc:"Who inserted it; left out where that is not known."`
	Change string    `json:"change,omitempty" doc:"Hash of the latest change that inserted any of it; left out with the agent."`
}

func (s *Server) blameSection(ctx context.Context, in *blameSectionInput) (*blameSectionOutput, error) {
	meta, sid, err := s.findSection(ctx, in.SectionPath)
	if err != nil {
		return nil, err
	}
	b, err := s.library.Blame(ctx, keyOf(ctx), meta.ID, sid, crdt.Version(in.Version))
	if err != nil {
		return nil, err
	}
	out := new(blameSectionOutput)
	out.Body.Version = b.Version
	out.Body.Ranges = make([]blameRange, len(b.Ranges))
	for i, r := range b.Ranges {
		out.Body.Ranges[i] = blameRange{At: r.At, Length: r.Length, Agent: r.Agent}
		if r.Agent != "" {
			out.Body.Ranges[i].Change = r.Change.String()
		}
	}
	return out, nil
}
