import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { once } from "node:events";
import { mkdtemp, readFile, rm } from "node:fs/promises";
import { createServer } from "node:http";
import { tmpdir } from "node:os";
import { join } from "node:path";
import test from "node:test";
import { call, newKey, server } from "./lib.mjs";

// What the page does: with the platform's own fetch and WebSocket, and from another origin than the server's.
const page = (key, slug) => `<!doctype html><script type="module">
  import { connect, LeaseConflictError } from "/dist/index.js";
  const said = [];
  try {
    const client = connect({ url: ${JSON.stringify(server)}, key: ${JSON.stringify(key)} });
    const document = client.document(${JSON.stringify(slug)});
    const mirror = await document.mirror();
    said.push(mirror.markdown);
    const base = mirror.section(mirror.sections[0].id);
    await document.edit(base, { ops: [{ at: base.text.indexOf("😀"), delete: 2, insert: "🎉" }] });
    await mirror.until((m) => m.markdown.includes("🎉"));
    said.push(mirror.markdown);
    const lease = await document.lease(base.id, { seconds: 30 });
    said.push(lease.holder);
    await lease.release();
    for await (const event of document.stream()) {
      said.push(event.event_type);
      if (event.event_type === "section.lease_released") break;
    }
    await document.lease("taken").catch((err) => said.push(err instanceof LeaseConflictError && err.holder));
    client.close();
  } catch (err) {
    said.push(String(err));
  }
  await fetch("/said", { method: "POST", body: JSON.stringify(said) });
</script>`;

test("it works in a browser, from another origin", async (t) => {
  const { slug } = await call("POST", "/documents", { markdown: "# One 😀\n" });
  await call("POST", `/documents/${slug}/sections/taken/lease`, { leaseDurationSeconds: 60 });
  const { key } = await newKey("browser");

  const result = new Promise((resolve, reject) => {
    const files = createServer(async (request, response) => {
      try {
        if (request.url === "/said") {
          resolve(JSON.parse(Buffer.concat(await request.toArray()).toString()));
          response.end();
        } else if (request.url?.startsWith("/dist/")) {
          response.setHeader("Content-Type", "text/javascript").end(await readFile(`.${request.url}`));
        } else {
          response.setHeader("Content-Type", "text/html; charset=utf-8").end(page(key, slug));
        }
      } catch (err) {
        response.writeHead(404).end();
        reject(err);
      }
    });
    files.listen(0, "127.0.0.1", async () => {
      const address = files.address();
      assert.ok(address && typeof address === "object");
      const profile = await mkdtemp(join(tmpdir(), "cowrite-sdk-"));
      const flags = ["--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--no-first-run", `--user-data-dir=${profile}`];
      const chromium = spawn("chromium", [...flags, `http://127.0.0.1:${address.port}/`], { stdio: "ignore" });
      chromium.on("error", reject);
      t.after(async () => {
        if (chromium.pid !== undefined && chromium.exitCode === null) {
          const ended = once(chromium, "exit");
          chromium.kill();
          await ended;
        }
        files.closeAllConnections();
        files.close();
        await rm(profile, { recursive: true, force: true, maxRetries: 20 });
      });
    });
  });
  assert.deepEqual(await result, [
    "# One 😀\n", "# One 🎉\n", "browser",
    "document.created", "section.leased", "section.edited", "section.leased", "section.lease_released", "admin",
  ]);
});
