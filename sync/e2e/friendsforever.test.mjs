// A recorded session of two people who type in one document at the same time, as ready-made changes. Each
// client brings in its own author's, and each change only once what it was typed on has reached its replica
// through the server.

import assert from "node:assert/strict";
import { execFile } from "node:child_process";
import { readFile } from "node:fs/promises";
import test from "node:test";
import { promisify } from "node:util";
import { gunzipSync } from "node:zlib";
import { applyChanges, decodeChange, decodeSyncMessage, hasHeads, save } from "@automerge/automerge";
import { adminKey, binary, call, connect, newKey, restText, server, until } from "./lib.mjs";

const trace = new URL("../../../shared/traces/friendsforever.changes.json.gz", import.meta.url);
const { seed, own, endContent } = JSON.parse(gunzipSync(await readFile(trace)));

// The byte of a chunk that says what it is (https://automerge.org/automerge-binary-format-spec), and a document's.
const chunkKind = 8;
const documentChunk = 0;

const bytes = (base64) => new Uint8Array(Buffer.from(base64, "base64"));
const text = (handle) => String(handle.doc().sections.s.body);

/** Plays an author's changes into its replica. */
class Author {
  constructor(handle, changes) {
    this.handle = handle;
    this.changes = changes.map(bytes);
    const decoded = this.changes.map((change) => decodeChange(change));
    this.deps = decoded.map(({ deps }) => deps);
    this.hashes = decoded.map(({ hash }) => hash);
    this.here = new Set(); // hashes that are known to be in the replica
    this.next = 0;
    this.waits = 0; // how often the next change waited for the other author's
    this.seen = false; // whether the handle has told of a change
    handle.on("change", () => (this.seen = true));
    handle.on("heads-changed", () => setImmediate(() => this.play()));
  }

  /** Whether everything that a change was typed on is here. */
  ready(i) {
    for (const dep of this.deps[i]) {
      if (this.here.has(dep)) continue;
      if (!hasHeads(this.handle.doc(), [dep])) return false;
      this.here.add(dep);
    }
    return true;
  }

  /** Brings in whatever is ready: an author's own changes make its next ones ready, or the other author's do. */
  play() {
    const from = this.next;
    while (!this.done && this.ready(this.next)) this.here.add(this.hashes[this.next++]);
    if (this.next === from) return;
    this.seen = false;
    this.handle.update((doc) => applyChanges(doc, this.changes.slice(from, this.next))[0]);
    if (!this.seen) {
      // A stock client sends what can be seen: changes that cancel each other out wait in it for the next one that
      // can. Nobody types in this replica, so it is told to send.
      const doc = this.handle.doc();
      this.handle.emit("change", { handle: this.handle, doc, patches: [], patchInfo: { before: doc, after: doc, source: "change" } });
    }
    if (!this.done) this.waits++;
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

  // Who comes with nothing gets the whole in one message: a saved document, and what came since it was saved.
  const newcomer = connect(t, keys[0].key);
  const heard = [];
  newcomer.adapter.on("message", (message) => {
    if (message.type === "sync" && message.documentId === first.documentId) heard.push(decodeSyncMessage(message.data).changes);
  });
  const handle = await newcomer.find(first.url);
  await until(() => text(handle) === endContent, "the newcomer to have it", 60_000);
  const carrying = heard.filter((entries) => entries.length > 0);
  assert.equal(carrying.length, 1, "messages with content");
  assert.equal(carrying[0].length, 1, "entries in it");
  const [whole] = carrying[0];
  assert.equal(whole[chunkKind], documentChunk);

  // In the store it takes at most four times what it takes saved, and 64 bytes for each change.
  const { documents } = await call("GET", "/usage?limit=1000");
  const usage = documents.find(({ documentId }) => documentId === first.documentId);
  assert.ok(usage.bytes <= 4 * save(handle.doc()).length + 64 * usage.changes, `${usage.bytes} bytes for ${usage.changes} changes`);
  t.diagnostic(`a newcomer gets ${whole.length} bytes; stored are ${usage.bytes}`);
});
