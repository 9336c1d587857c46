package web

import (
	"flag"
	"net/http/httptest"
	"os"
	"testing"
)

var update = flag.Bool("update", false, "write openapi.json anew")

// The checked-in description is what the server serves.
func TestOpenAPIIsCheckedIn(t *testing.T) {
	got, err := New(Options{}).OpenAPI()
	if err != nil {
		t.Fatal(err)
	}
	const file = "openapi.json"
	if *update {
		if err := os.WriteFile(file, got, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if string(got) != string(want) {
		t.Errorf("%s is not what the routes say; go test ./web -run OpenAPI -update writes it anew", file)
	}
	rec := httptest.NewRecorder()
	New(Options{}).ServeHTTP(rec, httptest.NewRequest("GET", "/openapi.json", nil))
	if rec.Code != 200 || rec.Body.String() != string(want) {
		t.Errorf("served is %d %.40s", rec.Code, rec.Body)
	}
}
