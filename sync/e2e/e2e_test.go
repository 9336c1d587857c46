// Package e2e runs stock clients from npm, unmodified, against the whole server: automerge-repo for
// documents, llmtxt for leases and event streams. The tests themselves are the *.test.mjs files beside
// this one.
package e2e

import (
	"os"
	"testing"

	"cowrite/sync/e2e/server"
)

func TestStockClients(t *testing.T) {
	if _, err := os.Stat("node_modules/@automerge/automerge-repo"); err != nil {
		t.Fatalf("the stock clients are not installed (%v): `make test` installs them", err)
	}
	binary := server.Build(t)
	url := server.Start(t, binary)
	for _, script := range server.Scripts(t, "*.test.mjs") {
		t.Run(server.Name(script), func(t *testing.T) {
			t.Parallel()
			// A stock client that was closed goes on trying to connect after its shutdown: hence the forced exit.
			server.Node(t, script, url, binary, "--test-force-exit")
		})
	}
}
