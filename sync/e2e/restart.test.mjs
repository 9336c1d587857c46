import assert from "node:assert/strict";
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import test from "node:test";
import { updateText } from "@automerge/automerge-repo";
import { closeCode, connect, newKey, oneSection, restText, startServer, until } from "./lib.mjs";

const body = (handle) => handle.doc().sections.s.body;
const write = (handle, text) => handle.change((d) => updateText(d, ["sections", "s", "body"], text));

for (const signal of ["SIGTERM", "SIGKILL"]) {
  test(`clients go on after a restart (${signal})`, async (t) => {
    const data = await mkdtemp(join(tmpdir(), "cowrite-e2e-"));
    t.after(() => rm(data, { recursive: true }));
    const first = await startServer(data);
    const alice = await newKey("alice", "editor", first.url);
    const bob = await newKey("bob", "editor", first.url);
    const a = connect(t, alice.key, { at: first.url });
    const b = connect(t, bob.key, { at: first.url });
    const mine = a.create(oneSection("before\n"));
    await until(() => restText(mine.documentId, first.url).catch(() => undefined), "the document to be stored");
    const theirs = await b.find(mine.url);

    const closed = closeCode(a);
    const stopped = first.stop(signal);
    assert.equal(await closed, signal === "SIGTERM" ? 4503 : 1006);
    assert.equal(await stopped, signal === "SIGTERM" ? 0 : null);

    // While the server is away both go on writing.
    write(mine, "before\nAlice, alone\n");
    write(theirs, "before\nBob, alone\n");
    const second = await startServer(data, first.port);
    t.after(() => second.stop());
    assert.equal(await restText(mine.documentId, second.url), "before\n");

    // Clients come back 5 s after they were closed.
    await until(() => body(mine) === body(theirs) && body(mine).includes("Alice") && body(mine).includes("Bob"), "both to have both lines", 20_000);
    await until(async () => (await restText(mine.documentId, second.url)) === body(mine), "REST to agree");
  });
}
