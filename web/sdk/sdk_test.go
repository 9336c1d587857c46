// Package sdk_test runs the tests of the TypeScript client against the whole server. The tests themselves are the
// *.test.mjs files in test.
package sdk_test

import (
	"os"
	"testing"

	"cowrite/sync/e2e/server"
)

func TestSDK(t *testing.T) {
	for _, needed := range []string{"node_modules/ws", "dist/index.js"} {
		if _, err := os.Stat(needed); err != nil {
			t.Fatalf("the client is not built (%v): `make test` installs its packages and builds it", err)
		}
	}
	binary := server.Build(t)
	url := server.Start(t, binary)
	for _, script := range server.Scripts(t, "test/*.test.mjs") {
		// No forced exit: a client that was closed leaves nothing that keeps its process alive.
		t.Run(server.Name(script), func(t *testing.T) { server.Node(t, script, url, binary) })
	}
}
