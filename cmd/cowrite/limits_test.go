package main

import (
	"fmt"
	"log/slog"
	"maps"
	"os"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"cowrite/doc/code"
	"cowrite/sync/hub"
)

// limitRow is a row of a table of limits in a document: what it says of one field.
type limitRow struct {
	value int64 // a number, bytes, or nanoseconds
	codes []code.Code
	flag  string
}

var (
	fieldName = regexp.MustCompile("`([A-Z][A-Za-z]+)`")
	quantity  = regexp.MustCompile(`([0-9][0-9,]*) ?(KiB|MiB|s)?`)
	codeWord  = regexp.MustCompile("`([A-Z][A-Z_]+)`")
	unit      = map[string]int64{"": 1, "KiB": 1 << 10, "MiB": 1 << 20, "s": int64(time.Second)}
)

// limitTable reads the rows of the first table behind a line of a document.
func limitTable(t *testing.T, name, behind string) map[string]limitRow {
	t.Helper()
	text, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	_, rest, found := strings.Cut(string(text), behind)
	_, rest, _ = strings.Cut(rest, "|---")
	if !found {
		t.Fatalf("%s does not say %q", name, behind)
	}
	rows := map[string]limitRow{}
	for line := range strings.SplitSeq(rest, "\n") {
		if line == "" {
			break
		}
		cells := append(strings.Split(line, "|"), "", "")
		values := quantity.FindAllStringSubmatch(cells[2], -1)
		for i, field := range fieldName.FindAllStringSubmatch(cells[1], -1) {
			n, err := strconv.ParseInt(strings.ReplaceAll(values[i][1], ",", ""), 10, 64)
			if err != nil {
				t.Fatal(err)
			}
			row := limitRow{value: n * unit[values[i][2]], flag: strings.Trim(cells[4], " `")}
			for _, c := range codeWord.FindAllStringSubmatch(cells[3], -1) {
				row.codes = append(row.codes, code.Code(c[1]))
			}
			rows[field[1]] = row
		}
	}
	return rows
}

// What the documents say of limits is what is in force: each has its row, with its default, and codes that there are.
func TestLimitsAreDocumented(t *testing.T) {
	s, err := open(t.Context(), settings{data: t.TempDir()}, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	documents := s.library.Limits()
	if err := s.close(t.Context()); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name, behind string
		limits       any
		all          bool
	}{
		{"../../ARCHITECTURE.md", "Of `doc.Limits`", documents, true},
		{"../../ARCHITECTURE.md", "Of `hub.Limits`", hub.New(hub.Options{}).Limits(), false},
		{"../../sync/PROTOCOL.md", "Of `hub.Limits`", hub.New(hub.Options{}).Limits(), true},
	} {
		rows, limits := limitTable(t, c.name, c.behind), reflect.ValueOf(c.limits)
		for i := range limits.NumField() {
			field := limits.Type().Field(i).Name
			row, ok := rows[field]
			switch want := limits.Field(i).Int(); {
			case !ok && c.all:
				t.Errorf("%s has no row for %s", c.name, field)
			case ok && row.value != want:
				t.Errorf("%s says that %s is %d, and it is %d", c.name, field, row.value, want)
			}
			for _, word := range row.codes {
				if _, known := code.Table[word]; !known {
					t.Errorf("%s names %s beyond %s, which is in no table", c.name, word, field)
				}
			}
			delete(rows, field)
		}
		for field := range rows {
			t.Errorf("%s has a row for %s, which is no limit", c.name, field)
		}
	}
}

// Each flag sets the limit beside which the documents name it.
func TestLimitsHaveFlags(t *testing.T) {
	rows := limitTable(t, "../../ARCHITECTURE.md", "Of `doc.Limits`")
	maps.Copy(rows, limitTable(t, "../../ARCHITECTURE.md", "Of `hub.Limits`"))
	var flags []string
	for field, row := range rows {
		if row.flag == "" {
			continue
		}
		flags = append(flags, row.flag)
		var chosen limitFlags
		at := reflect.ValueOf(&chosen).Elem()
		for i := range at.NumField() {
			if kebab(at.Type().Field(i).Name) == row.flag {
				at.Field(i).SetUint(7)
			}
		}
		set := fmt.Sprintf("%+v %+v", chosen.documents(), chosen.sockets())
		if !strings.Contains(set, field+":7") {
			t.Errorf("%s does not set %s: %s", row.flag, field, set)
		}
	}
	if n := reflect.TypeFor[limitFlags]().NumField(); len(flags) != n {
		t.Errorf("the documents name the flags %v, and there are %d", slices.Sorted(slices.Values(flags)), n)
	}
}

// kebab is a field's name as a flag.
func kebab(name string) string {
	return "--" + strings.ToLower(strings.TrimPrefix(regexp.MustCompile("([A-Z])").ReplaceAllString(name, "-$1"), "-"))
}
