package sqlite

import (
	"database/sql"
	"strings"
	"testing"
)

// How many links a document has, and which ended long ago, is found without reading all keys.
func TestSharesAreFoundByTheirIndexes(t *testing.T) {
	s := openStore(t, t.TempDir(), Options{})
	for query, c := range map[string]struct {
		index string
		args  []any
	}{
		countShares: {"SEARCH keys USING INDEX shares_by_document (document=? AND <expr>>?)", []any{make([]byte, 16), 1}},
		dropShares:  {"SEARCH keys USING INDEX shares_by_end (<expr><?)", []any{1, 1}},
	} {
		var plan []string
		err := s.read(t.Context(), func(v view) error {
			return v.each("EXPLAIN QUERY PLAN "+query, c.args, func(rows *sql.Rows) error {
				var id, parent, unused int
				var detail string
				err := rows.Scan(&id, &parent, &unused, &detail)
				plan = append(plan, detail)
				return err
			})
		})
		if err != nil {
			t.Fatal(err)
		}
		if all := strings.Join(plan, "; "); !strings.Contains(all, c.index) || strings.Contains(all, "SCAN keys") || strings.Contains(all, "TEMP B-TREE") {
			t.Errorf("%s: %s", query, all)
		}
	}
}
