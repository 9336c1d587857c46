package main

import (
	"cmp"
	"context"
	_ "embed"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/alecthomas/kong"
)

// completionCommand prints a shell's side of completion. What there is to complete the shell asks completeCommand, so
// that the grammar is written down once.
type completionCommand struct {
	Shell string `arg:"" enum:"bash,zsh,fish" help:"bash, zsh or fish."`
}

func (completionCommand) Help() string {
	return `Documents and sections are completed by asking the server, with the address and key of the environment.

    source <(cowrite completion bash)                 # in ~/.bashrc
    source <(cowrite completion zsh)                  # in ~/.zshrc, behind compinit
    cowrite completion fish | source                  # in ~/.config/fish/config.fish`
}

var (
	//go:embed completion/cowrite.bash
	bashCompletion string
	//go:embed completion/cowrite.zsh
	zshCompletion string
	//go:embed completion/cowrite.fish
	fishCompletion string
)

func (c completionCommand) Run(p *Program) error {
	script := map[string]string{"bash": bashCompletion, "zsh": zshCompletion, "fish": fishCompletion}[c.Shell]
	_, err := fmt.Fprint(p.Stdout, script)
	return err
}

// completeCommand prints what the last of the words of a command line may become: a line for each, with a tab and what
// it is. Nothing means a file name.
type completeCommand struct {
	Words []string `arg:"" optional:"" passthrough:""`
}

func (c completeCommand) Run(ctx context.Context, p *Program) error {
	words := c.Words
	if len(words) > 0 && words[0] == "--" {
		words = words[1:]
	}
	if len(words) == 0 {
		words = []string{""}
	}
	line := readLine(p.parser(ctx, func(int) {}).Model.Node, words)
	for _, found := range line.candidates(ctx, p) {
		if strings.HasPrefix(found.word, line.last) {
			if _, err := fmt.Fprintf(p.Stdout, "%s\t%s\n", found.word, found.about); err != nil {
				return err
			}
		}
	}
	return nil
}

// candidate is what a word may become.
type candidate struct{ word, about string }

// partialLine is a command line up to the word that is being typed.
type partialLine struct {
	node  *kong.Node        // the command so far
	args  []string          // its arguments so far
	flags map[string]string // its flags with values so far
	value *kong.Value       // the last word is the value of this flag; nil: it is none
	plain bool              // -- was said: there are no more flags
	last  string
}

func readLine(root *kong.Node, words []string) partialLine {
	words = slices.DeleteFunc(slices.Clone(words), func(word string) bool { return word == "=" }) // bash parts --flag=value so
	line := partialLine{node: root, flags: map[string]string{}}
	before, last := words[:max(0, len(words)-1)], ""
	if len(words) > 0 {
		last = words[len(words)-1]
	}
	var value *kong.Flag
	for _, word := range before {
		name, set, isSet := strings.Cut(strings.TrimPrefix(word, "--"), "=")
		switch {
		case value != nil:
			line.flags[value.Name] = word
			value = nil
		case word == "--" && !line.plain:
			line.plain = true
		case strings.HasPrefix(word, "--") && !line.plain:
			if flag := line.flag(name); isSet {
				line.flags[name] = set
			} else if flag != nil && !flag.IsBool() {
				value = flag
			}
		default:
			if child := childOf(line.node, word); child != nil && len(line.args) == 0 {
				line.node = child
			} else {
				line.args = append(line.args, word)
			}
		}
	}
	if value != nil {
		line.value = value.Value
	}
	if name, set, isSet := strings.Cut(strings.TrimPrefix(last, "--"), "="); isSet && strings.HasPrefix(last, "--") && line.flag(name) != nil {
		line.value, last = line.flag(name).Value, set
	}
	line.last = last
	return line
}

func childOf(node *kong.Node, name string) *kong.Node {
	i := slices.IndexFunc(node.Children, func(c *kong.Node) bool { return !c.Hidden && c.Name == name })
	if i < 0 {
		return nil
	}
	return node.Children[i]
}

// flag finds a flag of the command by its name.
func (l partialLine) flag(name string) *kong.Flag {
	for _, level := range l.node.AllFlags(true) {
		for _, flag := range level {
			if flag.Name == name {
				return flag
			}
		}
	}
	return nil
}

// candidates are what the last word may become, whatever of it was typed.
func (l partialLine) candidates(ctx context.Context, p *Program) []candidate {
	var found []candidate
	switch {
	case l.value != nil:
		return l.values(ctx, p, l.value)
	case strings.HasPrefix(l.last, "-") && !l.plain:
		for _, level := range l.node.AllFlags(true) {
			for _, flag := range level {
				found = append(found, candidate{"--" + flag.Name, flag.Help})
			}
		}
	case len(l.node.Children) > 0:
		for _, child := range l.node.Children {
			if !child.Hidden {
				found = append(found, candidate{child.Name, child.Help})
			}
		}
	case len(l.args) < len(l.node.Positional):
		return l.values(ctx, p, l.node.Positional[len(l.args)])
	}
	return found
}

// values are what a flag or an argument may be.
func (l partialLine) values(ctx context.Context, p *Program, v *kong.Value) []candidate {
	from := v.Tag.Get("complete")
	if from == "" {
		from = v.Enum
	}
	switch from {
	case "", "file":
		return nil
	case "document", "section":
		return l.fromServer(ctx, p, from)
	}
	var found []candidate
	for word := range strings.SplitSeq(from, ",") {
		found = append(found, candidate{word, v.Help})
	}
	return found
}

// serverTime is how long a person who pressed the tabulator waits for a server.
const serverTime = time.Second

// fromServer are the documents, or the sections of the document that was said. A server that cannot be asked has none.
func (l partialLine) fromServer(ctx context.Context, p *Program, what string) []candidate {
	address := cmp.Or(l.flags["url"], p.Env("COWRITE_URL"), defaultURL)
	server, err := remote{URL: address, Key: l.flags["key"], KeyFile: l.flags["key-file"]}.client(p)
	if err != nil {
		return nil
	}
	defer server.Close()
	ctx, cancel := context.WithTimeout(ctx, serverTime)
	defer cancel()
	var found []candidate
	if what == "section" {
		if len(l.args) == 0 {
			return nil
		}
		d, err := server.Document(ctx, l.args[0], "")
		if err != nil {
			return nil
		}
		for _, s := range slices.Concat(d.Sections, d.Removed) {
			found = append(found, candidate{s.ID, s.Heading})
		}
		return found
	}
	docs, _, err := server.Documents(ctx, "")
	if err != nil {
		return nil
	}
	for _, d := range docs {
		found = append(found, candidate{d.Ref(), d.Title})
	}
	return found
}
