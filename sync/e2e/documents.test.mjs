import assert from "node:assert/strict";
import test from "node:test";
import { save } from "@automerge/automerge";
import { Repo, updateText } from "@automerge/automerge-repo";
import { call, connect, newKey, oneSection, restText, sleep, until } from "./lib.mjs";

const alice = await newKey("alice");
const bob = await newKey("bob");
const viewer = await newKey("viewer", "viewer");

const body = (handle) => handle.doc().sections.s.body;
const write = (handle, text) => handle.change((d) => updateText(d, ["sections", "s", "body"], text));

test("two clients create, find and edit a document, and agree with REST", async (t) => {
  const a = connect(t, alice.key);
  const b = connect(t, bob.key);
  const mine = a.create(oneSection("# One\n"));
  await until(() => restText(mine.documentId).catch(() => undefined).then((text) => text === "# One\n"), "REST to show the document");

  const theirs = await b.find(mine.url);
  assert.equal(body(theirs), "# One\n");
  write(theirs, "# One\n\nBob was here.\n");
  await until(() => body(mine) === "# One\n\nBob was here.\n", "Alice to see Bob's edit");
  write(mine, "# One\n\nBob was here. So was Alice.\n");
  await until(() => body(theirs) === body(mine), "Bob to see Alice's edit");
  await until(async () => (await restText(mine.documentId)) === body(mine), "REST to agree");

  // A document made by a replica has no slug until it is given one, and both names lead to it.
  const document = await call("GET", `/documents/${mine.documentId}`);
  assert.equal(document.slug, null);
  assert.equal(document.createdBy, "alice");
  assert.equal(document.url, mine.url);
  const slug = `replica-${Date.now()}`;
  await call("PATCH", `/documents/${mine.documentId}`, { slug });
  assert.equal(await restText(slug), body(mine));
});

test("what REST writes and what a replica writes at the same time both stay", async (t) => {
  const document = await call("POST", "/documents", { markdown: "# Plan\n\nstart\n" });
  const section = document.sections[0].id;
  const a = connect(t, alice.key);
  const handle = await a.find(document.url);
  const text = () => String(handle.doc().sections[section].body);
  assert.equal(text(), "# Plan\n\nstart\n");

  handle.change((d) => updateText(d, ["sections", section, "body"], "# Plan\n\nstart\nthe replica's line\n"));
  const written = await call("PUT", `/documents/${document.slug}/sections/${section}`, { text: "# The plan\n\nstart\n", base: document.version }, { key: bob.key });
  assert.equal(written.id, section);
  await until(() => text() === "# The plan\n\nstart\nthe replica's line\n", "the replica to have both");
  await until(async () => (await restText(document.slug)) === text(), "REST to have both");
});

test("a viewer reads and cannot write", async (t) => {
  const a = connect(t, alice.key);
  const v = connect(t, viewer.key);
  const mine = a.create(oneSection("first\n"));
  await until(() => restText(mine.documentId).catch(() => undefined), "the document to be stored");
  const seen = await v.find(mine.url);
  assert.equal(body(seen), "first\n");
  write(mine, "second\n");
  await until(() => body(seen) === "second\n", "the viewer to see an edit");

  write(seen, "a viewer's own\n");
  await sleep(500); // several times what a client waits before it sends
  write(mine, "second, third\n");
  await until(async () => (await restText(mine.documentId)) === "second, third\n", "the editor's next edit");
  assert.equal(body(mine), "second, third\n");
  await until(() => body(seen).includes("third"), "the viewer still to be told");

  const own = v.create(oneSection("a viewer's document\n"));
  await sleep(500);
  await assert.rejects(restText(own.documentId), /DOCUMENT_NOT_FOUND/);
});

test("ephemeral messages are relayed once, to everyone else", async (t) => {
  const peers = [connect(t, alice.key, { peerId: `a-${Date.now()}` }), connect(t, bob.key), connect(t, viewer.key)];
  const first = peers[0].create(oneSection("chat\n"));
  await until(() => restText(first.documentId).catch(() => undefined), "the document to be stored");
  const handles = [first, await peers[1].find(first.url), await peers[2].find(first.url)];
  const heard = handles.map(() => []);
  handles.forEach((handle, i) => handle.on("ephemeral-message", (m) => heard[i].push([m.senderId, m.message])));

  first.broadcast({ cursor: 5 });
  await until(() => heard[1].length && heard[2].length, "the others to hear it");
  handles[2].broadcast({ cursor: 7 });
  await until(() => heard[0].length && heard[1].length === 2, "a viewer to be heard");
  await sleep(300); // for what must not come: echoes
  assert.deepEqual(heard, [
    [[peers[2].peerId, { cursor: 7 }]],
    [[peers[0].peerId, { cursor: 5 }], [peers[2].peerId, { cursor: 7 }]],
    [[peers[0].peerId, { cursor: 5 }]],
  ]);
});

test("an unknown document appears when it is created elsewhere", async (t) => {
  const elsewhere = new Repo().create(oneSection("late\n"));
  const b = connect(t, bob.key);
  await assert.rejects(b.find(elsewhere.url), /unavailable/);
  const waiting = (await b.findWithProgress(elsewhere.url)).handle;

  const a = connect(t, alice.key);
  a.import(save(elsewhere.doc()), { docId: elsewhere.documentId });
  await until(() => waiting.isReady(), "the document to appear without another request");
  assert.equal(body(waiting), "late\n");
});

test("a deleted document is unavailable, and takes no edits", async (t) => {
  const a = connect(t, alice.key);
  const b = connect(t, bob.key);
  const mine = a.create(oneSection("doomed\n"));
  await until(() => restText(mine.documentId).catch(() => undefined), "the document to be stored");
  await call("DELETE", `/documents/${mine.documentId}`);
  write(mine, "still writing\n");
  await assert.rejects(b.find(mine.url), /unavailable/);
  await assert.rejects(restText(mine.documentId), /DOCUMENT_DELETED/);
  const other = a.create(oneSection("another\n"));
  await until(() => restText(other.documentId).catch(() => undefined), "the same client's next document");
});
