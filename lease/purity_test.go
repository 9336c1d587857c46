package lease

import (
	"go/parser"
	"go/token"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// The kernel may know what time is, and nothing that has a clock, a goroutine, chance, I/O or a wire format.
func TestKernelIsPure(t *testing.T) {
	may := []string{"cmp", "container/heap", "errors", "fmt", "maps", "slices", "strings", "time"}
	for _, file := range []string{"lease.go", "command.go", "validate.go", "kernel.go", "acquire.go", "holder.go", "waitgraph.go", "state.go"} {
		src, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		parsed, err := parser.ParseFile(token.NewFileSet(), file, src, parser.ImportsOnly)
		if err != nil {
			t.Fatal(err)
		}
		for _, spec := range parsed.Imports {
			if path, _ := strconv.Unquote(spec.Path.Value); !slices.Contains(may, path) {
				t.Errorf("%s imports %s", file, path)
			}
		}
		for _, word := range []string{"time.Now", "time.Since", "time.Until", "time.Sleep", "time.After(", "time.New", "go func", "chan ", "select {", "fmt.Print"} {
			if strings.Contains(string(src), word) {
				t.Errorf("%s has %q", file, word)
			}
		}
	}
}

// The browser's playground runs this very package.
func TestCompilesToWebAssembly(t *testing.T) {
	build := exec.CommandContext(t.Context(), "go", "build", "-o", os.DevNull, "./...")
	build.Env = append(os.Environ(), "GOOS=js", "GOARCH=wasm", "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		t.Errorf("%v\n%s", err, out)
	}
}
