// The rules of the house, kept by tests: who may import whom and why, one comment a package, files that can
// be read in one sitting.
package cowrite_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"go/ast"
	"go/parser"
	"go/token"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// module is the name of the whole.
const module = "cowrite"

// maxLines is the most that a source file may have.
const maxLines = 800

// rule says what of ours a package may import. A rule for "sync/repo" is for that package alone, one for
// "web/..." for web and all below it that has no rule of its own.
type rule struct {
	of  string
	may []string
	why string
}

var rules = []rule{
	{"crdt", nil,
		"crdt never sees a lease: that is how a lease can never stop a merge"},
	{"crdt/crdttest", nil,
		"it damages bytes for the tests of every room"},
	{"crdt/engine", []string{"crdt"},
		"the engine is a narrow door to the Automerge core; a lease can never stop a merge that knows of none"},
	{"lease", nil,
		"the kernel is a pure state machine that also runs in a browser; it knows resources, not documents"},
	{"lease/...", []string{"lease/..."},
		"what stands around the kernel runs in a browser as well, and knows no documents"},
	{"doc/code", nil,
		"every room and every client of the server must be able to speak the same refusals"},
	{"doc", []string{"crdt", "crdt/engine", "lease", "doc/code"},
		"a document knows no store, no socket and no HTTP: those stand around it"},
	{"doc/storetest", []string{"crdt", "lease", "doc", "doc/code"},
		"the contract of a store is the same for every backend, so it knows none"},
	{"doc/sqlite", []string{"crdt", "lease", "doc", "doc/code"},
		"a store backend imports doc and never another backend: only so can one be taken for another"},
	{"sync/repo", []string{"crdt", "lease", "doc/code"},
		"a wire format is bytes to values and back; what is done with them is decided elsewhere"},
	{"sync/agent", []string{"crdt", "lease", "doc/code"},
		"a wire format is bytes to values and back; what is done with them is decided elsewhere"},
	{"sync/...", []string{"crdt", "lease", "doc", "doc/code", "sync/..."},
		"sockets talk to the library alone: neither a store nor an engine may be reached around it"},
	{"web/...", []string{"crdt/...", "lease/...", "doc/...", "sync/...", "web/..."},
		"nothing depends on the binary"},
	{"cmd/...", []string{"..."},
		"cmd wires everything"},
}

// keeper says where alone a package of others may be imported.
type keeper struct {
	imported string
	only     []string
	why      string
}

var keepers = []keeper{
	{"database/sql", []string{"doc/sqlite"}, "no SQL outside its backend: another store must be able to stand beside it"},
	{"github.com/mattn/go-sqlite3", []string{"doc/sqlite"}, "no SQL outside its backend: another store must be able to stand beside it"},
	{"github.com/automerge/automerge-go", []string{"crdt/engine", "cmd/cowrite/syncbench"}, "its core can abort the process: only the engine may call it, and clients of a measurement, which are not the server"},
	{"github.com/coder/websocket", []string{"sync/line", "sync/socket", "sync/agentsocket", "sync/client", "cmd/..."}, "wire formats and documents know no socket"},
	{"net/http", []string{"doc/code", "sync/line", "sync/socket", "sync/agentsocket", "sync/client", "web/...", "cmd/..."}, "HTTP ends at the edge"},
}

func matches(pattern, name string) bool {
	if prefix, ok := strings.CutSuffix(pattern, "..."); ok {
		prefix = strings.TrimSuffix(prefix, "/")
		return prefix == "" || name == prefix || strings.HasPrefix(name, prefix+"/")
	}
	return pattern == name
}

func matchesAny(patterns []string, name string) bool {
	return slices.ContainsFunc(patterns, func(p string) bool { return matches(p, name) })
}

// ruleOf finds the rule of a package: one that names it, else the longest that covers it.
func ruleOf(name string) (rule, bool) {
	var found rule
	for _, r := range rules {
		if r.of == name {
			return r, true
		}
		if matches(r.of, name) && len(r.of) > len(found.of) {
			found = r
		}
	}
	return found, found.of != ""
}

// pkg is what go list tells of a package.
type pkg struct {
	ImportPath string
	Dir        string
	GoFiles    []string
	CgoFiles   []string
	Imports    []string
}

// name is the package's path in the module.
func (p pkg) name() string { return strings.TrimPrefix(p.ImportPath, module+"/") }

// packages lists those with code beside their tests, also when they do not build: of a cycle of imports the rule
// that it breaks says more than the compiler.
func packages(t *testing.T) []pkg {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "go", "list", "-e", "-json=ImportPath,Dir,GoFiles,CgoFiles,Imports", "./...")
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("go list: %v\n%s", err, &stderr)
	}
	var all []pkg
	for dec := json.NewDecoder(bytes.NewReader(out)); ; {
		var p pkg
		if err := dec.Decode(&p); errors.Is(err, io.EOF) {
			return all
		} else if err != nil {
			t.Fatalf("read go list: %v", err)
		}
		if len(p.GoFiles)+len(p.CgoFiles) > 0 {
			all = append(all, p)
		}
	}
}

func TestWhoImportsWhom(t *testing.T) {
	all := packages(t)
	for _, p := range all {
		r, ok := ruleOf(p.name())
		if !ok {
			t.Errorf("%s is in no room: the rooms are cmd, crdt, doc, lease, sync and web", p.name())
			continue
		}
		for _, imported := range p.Imports {
			if name, ours := strings.CutPrefix(imported, module+"/"); ours && !matchesAny(r.may, name) {
				t.Errorf("%s imports %s, and may not: %s", p.name(), name, r.why)
			}
			for _, k := range keepers {
				if k.imported == imported && !matchesAny(k.only, p.name()) {
					t.Errorf("%s imports %s, and may not: %s", p.name(), imported, k.why)
				}
			}
		}
	}
}

// A rule about a package that is no longer there keeps nothing.
func TestRulesNameWhatIsThere(t *testing.T) {
	all := packages(t)
	exists := func(pattern string) bool {
		return slices.ContainsFunc(all, func(p pkg) bool { return matches(pattern, p.name()) })
	}
	imports := func(name string) bool {
		return slices.ContainsFunc(all, func(p pkg) bool { return slices.Contains(p.Imports, name) })
	}
	for _, r := range rules {
		for _, pattern := range append([]string{r.of}, r.may...) {
			if !exists(pattern) {
				t.Errorf("the rule of %s names %s, which is not there", r.of, pattern)
			}
		}
	}
	for _, k := range keepers {
		if !imports(k.imported) {
			t.Errorf("nothing imports %s any more: its rule keeps nothing", k.imported)
		}
		for _, pattern := range k.only {
			if !exists(pattern) {
				t.Errorf("the rule about %s names %s, which is not there", k.imported, pattern)
			}
		}
	}
}

func TestOneCommentForEachPackage(t *testing.T) {
	for _, p := range packages(t) {
		var with []string
		for _, file := range slices.Concat(p.GoFiles, p.CgoFiles) {
			parsed, err := parser.ParseFile(token.NewFileSet(), filepath.Join(p.Dir, file), nil, parser.ParseComments|parser.PackageClauseOnly)
			if err != nil {
				t.Fatal(err)
			}
			if hasComment(parsed) {
				with = append(with, file)
			}
		}
		if len(with) != 1 {
			t.Errorf("%s has %d package comments, want exactly one, in the file one would open first: %v", p.name(), len(with), with)
		}
	}
}

// hasComment says whether the file has a package comment, of which a build constraint is none.
func hasComment(f *ast.File) bool { return f.Doc != nil && strings.TrimSpace(f.Doc.Text()) != "" }

func TestModuleStandsAlone(t *testing.T) {
	out, err := exec.CommandContext(t.Context(), "go", "mod", "edit", "-json").Output()
	if err != nil {
		t.Fatal(err)
	}
	var mod struct{ Replace, Exclude []any }
	if err := json.Unmarshal(out, &mod); err != nil {
		t.Fatal(err)
	}
	if len(mod.Replace)+len(mod.Exclude) > 0 {
		t.Errorf("go.mod replaces or excludes modules, so the program is another one when installed from elsewhere: %v %v", mod.Replace, mod.Exclude)
	}
}

// source says which files people write and read.
func source(name string) bool {
	return slices.Contains([]string{".go", ".ts", ".js", ".mjs", ".svelte", ".css", ".sql", ".sh"}, path.Ext(name))
}

func TestFilesCanBeReadInOneSitting(t *testing.T) {
	passed := 0
	err := filepath.WalkDir(".", func(name string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if entry.IsDir() {
			switch entry.Name() {
			case ".git", "node_modules", "dist", "testdata", "bin", "data":
				return filepath.SkipDir
			}
			return nil
		}
		if !source(name) {
			return nil
		}
		content, err := os.ReadFile(name)
		if err != nil {
			return err
		}
		passed++
		if n := bytes.Count(content, []byte("\n")); n > maxLines {
			t.Errorf("%s has %d lines, more than %d: split it by what it knows", name, n, maxLines)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if passed == 0 {
		t.Error("no source file was found: the test looks in the wrong place")
	}
}
