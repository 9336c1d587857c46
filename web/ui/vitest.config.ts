import { svelte } from "@sveltejs/vite-plugin-svelte"
import { defineConfig } from "vitest/config"

// Two sets of tests: units in test/, and test/page/, which drives the built page in Chromium against a running
// server (ui_test.go starts one and says where it is in the environment).
export default defineConfig({
  plugins: [svelte()],
  test: {
    projects: [
      {
        extends: true,
        // Of what is inlined, a test can take the place of what it imports.
        test: { name: "units", include: ["test/*.test.ts"], environment: "node", testTimeout: 30_000, server: { deps: { inline: ["@automerge/automerge-repo-network-websocket"] } } },
      },
      {
        extends: true,
        test: { name: "page", include: ["test/page/*.test.ts"], environment: "node", fileParallelism: false, testTimeout: 180_000, hookTimeout: 120_000, expect: { poll: { timeout: 30_000 } } },
      },
    ],
  },
})
