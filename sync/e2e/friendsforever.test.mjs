// A recorded session of two people who type in one document at the same time, as ready-made changes. Each
// client brings in its own author's, and each change only once what it was typed on has reached its replica
// through the server.

import assert from "node:assert/strict";
import { execFile } from "node:child_process";
import { readFile } from "node:fs/promises";
import test from "node:test";
import { promisify } from "node:util";
import { gunzipSync } from "node:zlib";
import { applyChanges, decodeChange, hasHeads } from "@automerge/automerge";
import { adminKey, binary, connect, newKey, restText, server, until } from "./lib.mjs";

const trace = new URL("../../../shared/traces/friendsforever.changes.json.gz", import.meta.url);
const { seed, own, endContent } = JSON.parse(gunzipSync(await readFile(trace)));

const bytes = (base64) => new Uint8Array(Buffer.from(base64, "base64"));
const text = (handle) => String(handle.doc().sections.s.body);

/** Plays an author's changes into its replica. */
class Author {
  constructor(handle, changes) {
    this.handle = handle;
    this.changes = changes.map(bytes);
    this.deps = this.changes.map((change) => decodeChange(change).deps);
    this.next = 0;
    this.waits = 0; // how often the next change waited for the other author's
  }

  /** Whether everything that the next change was typed on is here. */
  ready() {
    return this.next < this.changes.length && hasHeads(this.handle.doc(), this.deps[this.next]);
  }

  /** Brings in whatever is ready; each of an author's own changes makes the next one ready, or the other's does. */
  play() {
    if (!this.ready()) return;
    this.handle.update((doc) => {
      while (this.next < this.changes.length && hasHeads(doc, this.deps[this.next])) {
        [doc] = applyChanges(doc, [this.changes[this.next++]]);
      }
      return doc;
    });
    if (this.next < this.changes.length) this.waits++;
  }

  get done() {
    return this.next === this.changes.length;
  }
}

test("two clients replay a recorded session, change by change", async (t) => {
  const keys = [await newKey("friend-one"), await newKey("friend-two")];
  const clients = keys.map(({ key }) => connect(t, key));
  const first = clients[0].import(bytes(seed));
  await until(() => restText(first.documentId).catch(() => undefined).then((body) => body !== undefined), "the document to be stored");
  const second = await clients[1].find(first.url);
  const authors = [new Author(first, own[0]), new Author(second, own[1])];

  const started = Date.now();
  for (const author of authors) author.handle.on("change", () => setImmediate(() => author.play()));
  for (const author of authors) author.play();
  let progress = authors.map((author) => author.next);
  let since = Date.now();
  await until(() => {
    const now = authors.map((author) => author.next);
    if (now.join() !== progress.join()) [progress, since] = [now, Date.now()];
    // A session that stalls has lost a change: better to say so at once than at the end of the test's time.
    assert.ok(Date.now() - since < 20_000, `stalled at ${now} of ${own.map((changes) => changes.length)}`);
    return authors.every((author) => author.done);
  }, "both authors to finish", 900_000);
  t.diagnostic(`${own[0].length + own[1].length} changes and ${authors[0].waits + authors[1].waits} hand-overs in ${Math.round((Date.now() - started) / 1000)} s`);

  await until(() => authors.every((author) => text(author.handle) === endContent), "both replicas to show the end", 60_000);
  await until(async () => (await restText(first.documentId)) === endContent, "REST to show the end", 60_000);
  const exported = await promisify(execFile)(binary, ["doc", "export", first.documentId], {
    env: { ...process.env, COWRITE_URL: server, COWRITE_KEY: adminKey },
  });
  assert.equal(exported.stdout, endContent);
});
