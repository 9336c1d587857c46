package playground

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/url"
	"strings"
	"time"

	"cowrite/lease"
	"cowrite/lease/story"
	"cowrite/lease/wire"
)

// Scene is a story to be played: what it is about, and its moves.
type Scene struct {
	About string `json:"about"`
	Moves []Move `json:"moves"`
}

// Read makes a scene of a story file. It fails where a line says what the door has no request for.
func Read(file string) (Scene, error) {
	scene := Scene{Moves: []Move{}}
	for _, p := range story.Paragraphs(file) {
		note := strings.Join(p.Notes, " ")
		if len(p.Lines) == 0 {
			scene.About = strings.TrimSpace(scene.About + " " + note)
		}
		for _, line := range p.Lines {
			moves, err := movesOf(line)
			if err != nil {
				return Scene{}, err
			}
			for _, m := range moves {
				m.Note, note = note, ""
				scene.Moves = append(scene.Moves, m)
			}
		}
	}
	return scene, nil
}

func movesOf(line string) ([]Move, error) {
	step, err := story.Parse(line, func() lease.ID { return "any" })
	if err != nil {
		return nil, err
	}
	switch step := step.(type) {
	case story.Pass:
		return []Move{{PassMs: time.Duration(step).Milliseconds()}}, nil
	case story.Status:
		return []Move{{Request: "GET " + Base + "/wait?resource=" + escape(string(step))}}, nil
	case story.Standing:
		return []Move{{Request: "GET " + Base + "/agents/" + string(step)}}, nil
	case story.Herd:
		var moves []Move
		for _, ask := range step {
			moves = append(moves, leaseMove(ask))
		}
		return moves, nil
	case story.Do:
		switch c := step.Command.(type) {
		case lease.Acquire:
			return []Move{leaseMove(c)}, nil
		case lease.Release:
			return []Move{post("/release", wire.ResourceLeaseRelease{Resource: string(c.Resource), ActorDID: string(wire.DIDOf(c.Agent)), LeaseID: string(c.IfID)})}, nil
		case lease.Renew:
			return []Move{post("/renew", wire.ResourceLeaseRenewal{Resource: string(c.Resource), ActorDID: string(wire.DIDOf(c.Agent)), TTLMs: c.Duration.Milliseconds()})}, nil
		case lease.Leave:
			return []Move{{Request: fmt.Sprintf("DELETE %s/wait?resource=%s\nAuthorization: Bearer %s", Base, escape(string(c.Resource)), c.Agent)}}, nil
		}
	}
	return nil, fmt.Errorf("%s: the coordination door has no such request", line)
}

// escape writes a resource's name in a query, where colons and slashes may stay as they are.
func escape(name string) string {
	return strings.NewReplacer("%3A", ":", "%2F", "/").Replace(url.QueryEscape(name))
}

func leaseMove(c lease.Acquire) Move {
	in := wire.ResourceLeaseRequest{
		Resource: string(c.Resource), ActorDID: string(wire.DIDOf(c.Agent)), TTLMs: c.Duration.Milliseconds(), Operation: c.Operation, Reason: c.Reason,
	}
	if c.Waiting {
		in.WaitMs = wire.MaxWait.Milliseconds()
	}
	if !c.Queue {
		in.Queue = new(bool)
	}
	return post("/lease", in)
}

func post(path string, body any) Move {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	enc.SetIndent("", "  ")
	if err := enc.Encode(body); err != nil {
		panic(err) // all bodies are plain values
	}
	return Move{Request: "POST " + Base + path + "\n\n" + strings.TrimSpace(b.String())}
}
