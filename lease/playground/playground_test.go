package playground

import (
	"encoding/json"
	"fmt"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"cowrite/lease"
	"cowrite/lease/story"
)

// scenes are the stories that the page plays.
var scenes = []string{"two-release-agents", "crashed-holder", "deadlock", "herd"}

func readStory(t *testing.T, name string) string {
	t.Helper()
	file, err := os.ReadFile("../testdata/" + name + ".txt")
	if err != nil {
		t.Fatal(err)
	}
	return string(file)
}

func play(t *testing.T, moves ...Move) []Turn {
	t.Helper()
	turns, err := Play(moves)
	if err != nil {
		t.Fatal(err)
	}
	return turns
}

func body(t *testing.T, answer string) map[string]any {
	t.Helper()
	var out map[string]any
	if err := json.Unmarshal([]byte(answer), &out); err != nil {
		t.Fatalf("%v in %q", err, answer)
	}
	return out
}

// promises are what the last line of a story's trace says of an answer.
var promises = map[string]*regexp.Regexp{
	"error":     regexp.MustCompile(`refused: (\w+)`),
	"position":  regexp.MustCompile(`position (\d+)`),
	"waitMs":    regexp.MustCompile(`wait (\d+)ms`),
	"limit":     regexp.MustCompile(`limit (\d+)`),
	"waitingOn": regexp.MustCompile(`waiting on (\S+):`),
	"leaseId":   regexp.MustCompile(`ok: (lease-\d+)`),
	"fence":     regexp.MustCompile(`ok: .* fence (\d+)`),
}

// told is the same of an answer of the playground.
func told(t *testing.T, turn Turn) map[string]string {
	b := body(t, turn.Answer)
	out := map[string]string{}
	for _, of := range []any{b, b["lease"], b["stampede"]} {
		facts, _ := of.(map[string]any)
		for name, value := range facts {
			if promises[name] != nil {
				out[name] = fmt.Sprint(value)
			}
		}
	}
	if out["error"] == "lease_held" {
		out["error"] = "held"
	}
	return out
}

// The page's scenes are the tests' stories: request by request, the door's answer says what the trace promises.
func TestScenesTellWhatTheStoriesTell(t *testing.T) {
	for _, name := range scenes {
		t.Run(name, func(t *testing.T) {
			file := readStory(t, name)
			scene, err := Read(file)
			if err != nil {
				t.Fatal(err)
			}
			if scene.About == "" {
				t.Error("nothing is said of what the scene is about")
			}
			turns := play(t, scene.Moves...)
			teller, at := story.New(began), 0
			for _, p := range story.Paragraphs(file) {
				for _, line := range p.Lines {
					trace, err := teller.Run(line)
					if err != nil {
						t.Fatal(err)
					}
					if strings.HasPrefix(line, "herd") {
						for _, one := range strings.Split(strings.TrimSpace(trace), "\n") {
							compare(t, one, scene.Moves[at], turns[at])
							at++
						}
						continue
					}
					lines := strings.Split(strings.TrimSpace(trace), "\n")
					compare(t, lines[len(lines)-1], scene.Moves[at], turns[at])
					at++
				}
			}
			if at != len(turns) {
				t.Errorf("the story has %d moves, the scene %d", at, len(turns))
			}
		})
	}
}

func compare(t *testing.T, line string, m Move, turn Turn) {
	t.Helper()
	if m.PassMs > 0 {
		return
	}
	if strings.HasPrefix(m.Request, "GET") {
		if turn.Status != 200 {
			t.Errorf("%s: %s", m.Request, turn.Answer)
		}
		return
	}
	got := told(t, turn)
	for name, promise := range promises {
		found := promise.FindStringSubmatch(line)
		released := strings.Contains(m.Request, "/release") && strings.HasPrefix(line, "ok")
		if found != nil && !released {
			want := found[1]
			if got[name] != want {
				t.Errorf("%s of the answer to %s is %q, the story promises %q: %s", name, m.Request, got[name], want, line)
			}
		}
	}
	if ok := strings.Contains(line, "ok"); ok != (turn.Status == 200) || ok != (turn.Verdict.Tone == Yes) {
		t.Errorf("%s gave %d %v, the story promises %s", m.Request, turn.Status, turn.Verdict, line)
	}
}

func TestFiftyAgentsBackOff(t *testing.T) {
	scene, err := Read(readStory(t, "herd"))
	if err != nil {
		t.Fatal(err)
	}
	turns := play(t, scene.Moves[:50]...)
	var waits []int
	for _, turn := range turns[1:10] {
		waits = append(waits, int(body(t, turn.Answer)["stampede"].(map[string]any)["waitMs"].(float64)))
	}
	if want := []int{25, 50, 100, 200, 400, 800, 800, 800, 800}; !slices.Equal(waits, want) {
		t.Errorf("the back-offs are %v, want %v", waits, want)
	}
	last := turns[49]
	if last.Verdict.Word != "queue_full" || len(last.World.Resources) != 1 || len(last.World.Resources[0].Queue) != lease.MaxWaiters {
		t.Errorf("the fiftieth: %+v", last)
	}
	if n := len(last.World.Waits); n != lease.MaxWaiters {
		t.Errorf("the graph of a queue of %d is drawn with %d edges, want a chain", lease.MaxWaiters, n)
	}
}

func ask(agent, resource, more string) Move {
	return Move{Request: fmt.Sprintf("POST %s/lease\n\n{\"resource\":%q,\"actorDid\":%q%s}", Base, resource, "did:cowrite:"+agent, more)}
}

func give(agent, resource string) Move {
	return Move{Request: fmt.Sprintf("POST %s/release\n\n{\"resource\":%q,\"actorDid\":%q}", Base, resource, agent)}
}

func TestRefusedCircleIsDrawn(t *testing.T) {
	turns := play(t, ask("a", "x", ""), ask("b", "y", ""), ask("a", "y", ""), ask("b", "x", ""), Move{PassMs: 1000})
	want := []Wait{
		{From: "a", To: "b", Over: "y", Circle: true},
		{From: "b", To: "a", Over: "x", Circle: true, Refused: true},
	}
	if got := turns[3].World.Waits; !slices.Equal(got, want) || turns[3].Verdict.Word != "deadlock" {
		t.Errorf("%v: %v, want %v", turns[3].Verdict, got, want)
	}
	if got := turns[4].World.Waits; !slices.Equal(got, []Wait{{From: "a", To: "b", Over: "y"}}) {
		t.Errorf("afterwards the graph is %v", got)
	}
}

func TestLongPollIsAnsweredWhenItsTurnComes(t *testing.T) {
	turns := play(t, ask("a", "x", ""), ask("b", "x", `,"waitMs":20000`), Move{PassMs: 5000}, give("a", "x"))
	if p := turns[1]; p.Status != 0 || p.Answer != "" || p.Verdict.Tone != Waits {
		t.Errorf("the poll is answered already: %+v", p)
	}
	if len(turns[2].Late) != 0 {
		t.Errorf("answered while a holds: %+v", turns[2].Late)
	}
	late := turns[3].Late
	if len(late) != 1 || late[0].Move != 1 || late[0].Status != 200 || body(t, late[0].Answer)["lease"].(map[string]any)["holder"] != "did:cowrite:b" {
		t.Errorf("the release brings %+v", late)
	}
}

func TestLongPollEndsInTime(t *testing.T) {
	turns := play(t, ask("a", "x", `,"ttlMs":60000`), ask("b", "x", `,"waitMs":20000`), Move{PassMs: 19_999}, Move{PassMs: 1})
	if len(turns[2].Late) != 0 {
		t.Errorf("answered too early: %+v", turns[2].Late)
	}
	late := turns[3].Late
	if len(late) != 1 || late[0].Status != 409 || late[0].Verdict.Word != "lease_held" {
		t.Fatalf("the end of the wait brings %+v", late)
	}
	if q := turns[3].World.Resources[0].Queue; len(q) != 1 || q[0].LeftMs != lease.DefaultPlace.Milliseconds() {
		t.Errorf("the place lives on as after an ask, and here is %+v", q)
	}
}

// A lease that ends between two moves serves who waits, at the instant at which it ended.
func TestTimeStopsWhereSomethingEnds(t *testing.T) {
	turns := play(t, ask("a", "x", `,"ttlMs":10000`), ask("b", "x", `,"waitMs":60000,"ttlMs":60000`), Move{PassMs: 30_000})
	late := turns[2].Late
	if len(late) != 1 || body(t, late[0].Answer)["lease"].(map[string]any)["acquiredAt"] != "2026-04-16T03:00:10.000Z" {
		t.Errorf("b is served so: %+v", late)
	}
	var actions []string
	for _, e := range turns[2].Happened {
		actions = append(actions, string(e.Action))
	}
	if want := []string{"expire", "reserve", "grant"}; !slices.Equal(actions, want) {
		t.Errorf("what happened is %v, want %v", actions, want)
	}
}

func TestRequestsAreCheckedAsAtTheDoor(t *testing.T) {
	for _, c := range []struct {
		request string
		status  int
		word    string
	}{
		{" ", 400, "bad_request"},
		{"POST " + Base + "/lease", 400, "invalid_json"},
		{"POST " + Base + "/lease\n\n{", 400, "invalid_json"},
		{"POST " + Base + "/lease\n\n{} {}", 400, "bad_request"},
		{"POST " + Base + "/lease\n\n{\"ressource\":\"x\"}", 400, "bad_request"},
		{ask("a", "", "").Request, 400, "bad_request"},
		{ask("A", "x", "").Request, 400, "invalid_agent"},
		{ask("a", "x", `,"ttlMs":999`).Request, 400, "invalid_duration"},
		{ask("a", "x", `,"ttlMs":300001`).Request, 400, "invalid_duration"},
		{ask("a", "x", `,"waitMs":60001`).Request, 400, "bad_request"},
		{ask("a", "x", `,"operation":"look"`).Request, 400, "bad_request"},
		{ask("a", "x", `,"reason":"`+strings.Repeat("é", 257)+`"`).Request, 400, "bad_request"},
		{ask("a", strings.Repeat("x", 513), "").Request, 400, "bad_request"},
		{strings.Replace(ask("a", "x", "").Request, "\n", "\nAuthorization: Bearer b\n", 1), 403, "actor_mismatch"},
		{strings.Replace(ask("a", "x", "").Request, "\n", "\nIdempotency-Key: k\n", 1), 400, "bad_request"},
		{give("a", "x").Request, 404, "no_active_lease"},
		{"POST " + Base + "/renew\n\n{\"resource\":\"x\",\"actorDid\":\"a\"}", 404, "no_active_lease"},
		{"PUT " + Base + "/lease", 405, "method_not_allowed"},
		{"GET " + Base + "/nothing", 404, "not_found"},
		{"GET /api/v1/documents", 404, "not_found"},
		{"DELETE " + Base + "/wait?resource=x", 401, "unauthorized"},
		{"GET " + Base + "/ledger?after=x", 400, "bad_request"},
	} {
		turn := play(t, Move{Request: c.request})[0]
		b := body(t, turn.Answer)
		if turn.Status != c.status || b["error"] != c.word || b["ok"] != false || b["message"] == "" {
			t.Errorf("%q gave %d %s", c.request, turn.Status, turn.Answer)
		}
	}
}

func TestReads(t *testing.T) {
	leave := Move{Request: "DELETE " + Base + "/wait?resource=x\nAuthorization: Bearer b"}
	get := func(path string) Move { return Move{Request: "GET " + Base + path} }
	turns := play(t, ask("a", "x", ""), ask("b", "x", ""), get("/wait"), get("/wait?resource=x"), get("/agents/b"), get("/ledger?actor=b"), get("/ledger?limit=1"), leave, leave)
	for i, want := range map[int]string{
		2: `{"ok":true,"queues":[{"resource":"x","holders":["did:cowrite:a"],"waiters":[{"actorDid":"did:cowrite:b","position":1,"since":"2026-04-16T03:00:00.000Z","mode":"exclusive"}]}],"deadlocks":[]}`,
		4: `{"ok":true,"actorDid":"did:cowrite:b","agent":"b","trust":50,"grants":0,"releases":0,"expiries":0,"refusals":1,"holds":[],"waitsFor":[{"resource":"x","position":1,"since":"2026-04-16T03:00:00.000Z","mode":"exclusive"}]}`,
		7: `{"ok":true,"left":true}`,
		8: `{"ok":true,"left":false}`,
	} {
		if got := strings.NewReplacer("\n", "", "  ", "", `": `, `":`).Replace(turns[i].Answer); got != want {
			t.Errorf("move %d:\n%s, want\n%s", i+1, got, want)
		}
	}
	if turns[3].Answer != turns[2].Answer {
		t.Errorf("the queue of the one resource is %s", turns[3].Answer)
	}
	for i, want := range map[int]int{5: 1, 6: 1} {
		if got := body(t, turns[i].Answer)["entries"].([]any); len(got) != want {
			t.Errorf("move %d gives %d entries: %v", i+1, len(got), got)
		}
	}
}

func TestBounds(t *testing.T) {
	if _, err := Play(make([]Move, MaxMoves+1)); err == nil {
		t.Error("too many moves were played")
	}
	for _, ms := range []int64{-1, MaxPass.Milliseconds() + 1} {
		if _, err := Play([]Move{{PassMs: ms}}); err == nil {
			t.Errorf("%d ms passed", ms)
		}
	}
	if _, err := Read("transfer a x b\n----\n"); err == nil {
		t.Error("the door has no transfer, and one was read")
	}
}
