import { createHash } from "node:crypto"
import { readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs"
import { join } from "node:path"
import { svelte } from "@sveltejs/vite-plugin-svelte"
import { defineConfig, type Plugin } from "vite"

const server = process.env.COWRITE_URL ?? "http://127.0.0.1:8080"

// Go embeds dist/, so the folder has to exist in a clone that never built the page: .keep is in git, and
// emptying the folder the ordinary way would delete it.
const emptyDist: Plugin = {
  name: "empty-dist-but-keep",
  apply: "build",
  writeBundle: {
    order: "pre",
    handler(options, bundle) {
      const dir = options.dir ?? "dist"
      const fresh = new Set(Object.keys(bundle).map((name) => name.split("/").at(-1)))
      for (const entry of readdirSync(dir, { withFileTypes: true, recursive: true })) {
        if (entry.isFile() && entry.name !== ".keep" && !fresh.has(entry.name)) rmSync(join(entry.parentPath, entry.name))
      }
    },
  },
}

// The service worker is told what the page consists of, as it was built. The playground does without: its WebAssembly
// is half of everything, and nobody needs it on the way.
const shellList: Plugin = {
  name: "shell-list",
  apply: "build",
  writeBundle: {
    order: "post",
    handler(options, bundle) {
      const dir = options.dir ?? "dist"
      const shell = {
        version: createHash("sha256").update(readFileSync(join(dir, "index.html"))).digest("base64"),
        files: Object.keys(bundle)
          .filter((name) => name.startsWith("assets/") && !/playground/i.test(name))
          .sort()
          .map((name) => `/${name}`),
      }
      const worker = join(dir, "sw.js")
      writeFileSync(worker, `const shell = ${JSON.stringify(shell)}\n${readFileSync(worker, "utf8")}`)
    },
  },
}

export default defineConfig({
  plugins: [svelte(), emptyDist, shellList],
  worker: { format: "es" },
  build: {
    target: "es2022",
    emptyOutDir: false,
    assetsInlineLimit: 0, // the content security policy allows no data: address for code or styles
    chunkSizeWarningLimit: 700,
    rolldownOptions: {
      input: { index: "index.html", sw: "src/shell/sw.ts" },
      // A service worker rules over what stands beside and below it, and is looked for under one name.
      output: { entryFileNames: ({ name }) => (name === "sw" ? "sw.js" : "assets/[name]-[hash].js") },
    },
  },
  server: {
    fs: { allow: [".", "../../lease/testdata"] }, // the playground's scenes
    // The Host header stays as it is: the cookie counts only where it equals the page's origin.
    proxy: { "/api": { target: server, changeOrigin: false, ws: true } },
  },
})
