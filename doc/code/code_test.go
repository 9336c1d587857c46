package code

import (
	"errors"
	"fmt"
	"go/ast"
	"go/constant"
	"go/parser"
	"go/token"
	"net/http"
	"regexp"
	"strconv"
	"testing"
)

// constants reads the codes off the source, so that none can be forgotten.
func constants(t *testing.T) map[string]Code {
	t.Helper()
	file, err := parser.ParseFile(token.NewFileSet(), "code.go", nil, 0)
	if err != nil {
		t.Fatal(err)
	}
	found := map[string]Code{}
	ast.Inspect(file, func(n ast.Node) bool {
		spec, ok := n.(*ast.ValueSpec)
		if !ok {
			return true
		}
		if typ, ok := spec.Type.(*ast.Ident); !ok || typ.Name != "Code" {
			return true
		}
		for i, name := range spec.Names {
			literal, ok := spec.Values[i].(*ast.BasicLit)
			if !ok {
				t.Fatalf("%s is no literal", name.Name)
			}
			found[name.Name] = Code(constant.StringVal(constant.MakeFromLiteral(literal.Value, literal.Kind, 0)))
		}
		return true
	})
	return found
}

func TestTableHasEveryCode(t *testing.T) {
	word := regexp.MustCompile(`^[A-Z]+(_[A-Z]+)*$`)
	names := map[Code]string{}
	for name, c := range constants(t) {
		if other, twice := names[c]; twice {
			t.Errorf("%s and %s are both %q", name, other, c)
		}
		names[c] = name
		if !word.MatchString(string(c)) {
			t.Errorf("%s is %q, want words in capitals joined by _", name, c)
		}
		entry, ok := Table[c]
		if !ok {
			t.Errorf("%s is not in the table", name)
			continue
		}
		if http.StatusText(entry.HTTP) == "" || entry.HTTP < 300 {
			t.Errorf("%s answers %d, which is no status of a refusal", name, entry.HTTP)
		}
		if entry.MCP >= 0 {
			t.Errorf("%s has the MCP error %d, want a JSON-RPC code", name, entry.MCP)
		}
	}
	if len(names) == 0 {
		t.Fatal("no constants found")
	}
	for c := range Table {
		if names[c] == "" {
			t.Errorf("the table has %q, which is no constant", c)
		}
	}
}

// A close code must tell a client the same as the status does: 44xx stay away, 45xx and 1013 come back.
func TestCloseCodesAgreeWithStatuses(t *testing.T) {
	for c, entry := range Table {
		if entry.Close == 0 {
			continue
		}
		retry := entry.Close == 1013 || entry.Close/100 == 45
		if !retry && entry.Close/100 != 44 {
			t.Errorf("%s closes with %d, want 44xx, 45xx or 1013", c, entry.Close)
		}
		if retry != (entry.HTTP >= http.StatusInternalServerError) {
			t.Errorf("%s closes with %d but answers %d: one says retry, the other does not", c, entry.Close, entry.HTTP)
		}
	}
}

func TestErrorKeepsItsCauseAndFacts(t *testing.T) {
	cause := errors.New("the disk is full")
	refused := New(SectionLeased, "held by %s", "beta").With("holder", "beta").With("limit", 3).Because(cause)
	wrapped := fmt.Errorf("acquire: %w", refused)

	if got := From(wrapped); got != refused {
		t.Errorf("From lost the refusal: %v", got)
	}
	if !Is(wrapped, SectionLeased) || Is(wrapped, Busy) || Is(cause, Internal) {
		t.Error("Is does not tell codes apart")
	}
	if !errors.Is(wrapped, cause) {
		t.Error("the cause is not in the chain")
	}
	if got := refused.Facts["holder"]; got != "beta" {
		t.Errorf("holder is %v", got)
	}
	if got := refused.Entry().HTTP; got != http.StatusConflict {
		t.Errorf("status %d", got)
	}

	private := From(cause)
	if private.Code != Internal || !errors.Is(private, cause) {
		t.Errorf("a plain error became %v", private)
	}
	if From(nil) != nil {
		t.Error("no error became one")
	}
}

// With must not write into the facts of an error that others may share.
func TestWithLeavesTheOriginal(t *testing.T) {
	base := New(TooLarge, "too large").With("limit", 1)
	for i := range 3 {
		if got := base.With("n", strconv.Itoa(i)); len(got.Facts) != 2 {
			t.Errorf("facts %v", got.Facts)
		}
	}
	if len(base.Facts) != 1 {
		t.Errorf("the original now has %v", base.Facts)
	}
}
