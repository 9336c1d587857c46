package web

import (
	"encoding/json"
	"fmt"
	"os"
	"regexp"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"cowrite/doc"
	"cowrite/lease/playground"
)

// The playground has no server, and answers every request of its scenes as the server does, word for word.
func TestThePlaygroundAnswersAsTheDoor(t *testing.T) {
	for _, name := range []string{"two-release-agents", "crashed-holder", "deadlock", "herd"} {
		t.Run(name, func(t *testing.T) {
			file, err := os.ReadFile("../lease/testdata/" + name + ".txt")
			if err != nil {
				t.Fatal(err)
			}
			scene, err := playground.Read(string(file))
			if err != nil {
				t.Fatal(err)
			}
			turns, err := playground.Play(scene.Moves)
			if err != nil {
				t.Fatal(err)
			}
			inBubble(t, func(t *testing.T, w *world) {
				w.document("doc") // of which a scene leases a section
				here, there := newSaid(time.Now()), newSaid(time.Date(2026, 4, 16, 3, 0, 0, 0, time.UTC))
				for i, m := range scene.Moves {
					if m.Request == "" {
						time.Sleep(time.Duration(m.PassMs) * time.Millisecond)
						synctest.Wait()
						continue
					}
					a := w.sendAs(m.Request)
					got, want := here.normal(string(a.raw)), there.normal(turns[i].Answer)
					if a.status != turns[i].Status || got != want {
						t.Errorf("move %d, %s\nthe door:       %d %s\nthe playground: %d %s", i+1, m.Request, a.status, got, turns[i].Status, want)
					}
				}
			})
		})
	}
}

// sendAs sends a request of a scene, with the key of whom it names.
func (w *world) sendAs(text string) answer {
	head, body, _ := strings.Cut(text, "\n\n")
	method, path, _ := strings.Cut(head, " ")
	as := root
	var named struct {
		ActorDID string `json:"actorDid"`
	}
	if body != "" {
		w.must(json.Unmarshal([]byte(body), &named))
		as = strings.TrimPrefix(named.ActorDID, "did:cowrite:")
		if _, known := w.secrets[as]; !known {
			w.addKey(as, doc.Key{Agent: doc.Agent(as), Role: doc.Editor, Pattern: "*"})
		}
	}
	return w.do(request{as: as, method: method, path: strings.TrimPrefix(path, Prefix), body: body})
}

// said makes answers of different servers alike: times become times since the beginning, ids numbers.
type said struct {
	began time.Time
	ids   map[string]int
}

func newSaid(began time.Time) *said { return &said{began, map[string]int{}} }

var (
	saidTime = regexp.MustCompile(`"\d{4}-\d\d-\d\dT[0-9:.]+Z"`)
	saidID   = regexp.MustCompile(`"leaseId":"([^"]+)"`)
)

func (s *said) normal(raw string) string {
	var fields map[string]any
	if err := json.Unmarshal([]byte(raw), &fields); err != nil {
		return raw
	}
	delete(fields, leaseLostField) // which the playground's agents see in the ledger
	plain, err := json.Marshal(fields)
	if err != nil {
		return raw
	}
	text := saidTime.ReplaceAllStringFunc(string(plain), func(at string) string {
		parsed, err := time.Parse(time.RFC3339, strings.Trim(at, `"`))
		if err != nil {
			return at
		}
		return fmt.Sprintf(`"+%v"`, parsed.Sub(s.began))
	})
	return saidID.ReplaceAllStringFunc(text, func(id string) string {
		if s.ids[id] == 0 {
			s.ids[id] = len(s.ids) + 1
		}
		return fmt.Sprintf(`"leaseId":%d`, s.ids[id])
	})
}
