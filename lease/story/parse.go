package story

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"cowrite/lease"
)

// maxHerd is the most agents that a herd may have.
const maxHerd = 1000

// Step is what one line says: one of the types below.
type Step interface{ step() }

// Do is a command to the kernel.
type Do struct{ lease.Command }

// Herd is many agents that ask for the same, in turn.
type Herd []lease.Acquire

// Pass lets time pass.
type Pass time.Duration

// Crash lets time pass in which nobody is served.
type Crash time.Duration

// Status asks who holds and who waits.
type Status lease.Resource

// Standing asks what is remembered of an agent.
type Standing lease.Agent

func (Do) step()       {}
func (Herd) step()     {}
func (Pass) step()     {}
func (Crash) step()    {}
func (Status) step()   {}
func (Standing) step() {}

// Parse understands one line. newID gives the ids of grants, one for each that a line may come to.
func Parse(line string, newID func() lease.ID) (Step, error) {
	words := strings.Fields(line)
	if len(words) == 0 {
		return nil, errors.New("an empty command")
	}
	args := args{words: words[1:]}
	step := args.step(words[0], newID)
	if err := args.end(); err != nil {
		return nil, fmt.Errorf("%s: %w", line, err)
	}
	return step, nil
}

func (a *args) step(verb string, newID func() lease.ID) Step {
	switch verb {
	case "after":
		return Pass(a.duration())
	case "crash":
		return Crash(a.duration())
	case "status":
		return Status(a.next())
	case "agent":
		return Standing(a.next())
	case "herd":
		return a.herd(newID)
	}
	return Do{a.command(verb, newID)}
}

// separator ends a paragraph's commands.
const separator = "----\n"

// Paragraph is a part of a story file: paragraphs are separated by blank lines.
type Paragraph struct {
	Head  string   // as it stands in the file: comments and commands, each line ended
	Notes []string // the lines of its comments, without their #
	Lines []string // commands; none in a paragraph that is only a comment
	Trace string   // what is promised, behind a line of dashes
}

// Paragraphs takes a story file apart.
func Paragraphs(file string) []Paragraph {
	var all []Paragraph
	for _, text := range strings.Split(strings.TrimSpace(file), "\n\n") {
		var p Paragraph
		var told bool
		p.Head, p.Trace, told = strings.Cut(text+"\n", separator)
		for _, line := range strings.Split(strings.TrimSpace(p.Head), "\n") {
			if note, ok := strings.CutPrefix(line, "#"); ok {
				p.Notes = append(p.Notes, strings.TrimSpace(note))
			} else if told {
				p.Lines = append(p.Lines, line)
			}
		}
		all = append(all, p)
	}
	return all
}
