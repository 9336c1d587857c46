import assert from "node:assert/strict";
import { once } from "node:events";
import test from "node:test";
import { updateText } from "@automerge/automerge-repo";
import WebSocket from "ws";
import { call, closeCode, connect, newKey, oneSection, restText, server, until } from "./lib.mjs";

const alice = await newKey("alice");
const bob = await newKey("bob");

const address = (key) => `${server.replace("http", "ws")}/api/v1/sync?token=${key}`;

test("junk on a socket ends that socket with a code, and nobody else notices", async (t) => {
  const a = connect(t, alice.key);
  const b = connect(t, bob.key);
  const mine = a.create(oneSection("0"));
  await until(() => restText(mine.documentId).catch(() => undefined), "the document to be stored");
  const theirs = await b.find(mine.url);
  let disconnected = 0;
  for (const repo of [a, b]) repo.adapter.on("peer-disconnected", () => disconnected++);

  const text4 = (word) => [0x64, ...Buffer.from(word)]; // CBOR text of four letters
  const join = Buffer.from([0xa2, ...text4("type"), ...text4("join"), 0x68, ...Buffer.from("senderId"), ...text4("junk")]);
  const junk = {
    "CBOR null": Buffer.from([0xf6]),
    "an integer": Buffer.from([0x01]),
    "an empty frame": Buffer.alloc(0),
    "a text frame": "hello",
    "a map that ends early": Buffer.from([0xb9, 0xff, 0xff]),
    "a map of everything there is": Buffer.from([0xbb, 0x7f, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff]),
    "a join of nobody": Buffer.from([0xa1, ...text4("type"), ...text4("join")]),
    "a megabyte of noise": Buffer.alloc(1 << 20, 0xff),
  };
  let round = 0;
  for (const joined of [false, true]) {
    for (const [what, frame] of Object.entries(junk)) {
      const socket = new WebSocket(address(alice.key));
      await once(socket, "open");
      if (joined) {
        socket.send(join);
        await once(socket, "message");
      }
      socket.on("error", () => {}); // the server may close while we still write
      socket.send(frame);
      const [code] = await once(socket, "close");
      const expected = what === "a megabyte of noise" && !joined ? 4413 : 4400;
      assert.equal(code, expected, `${what}, ${joined ? "joined" : "not joined"}`);

      const text = String(++round);
      mine.change((d) => updateText(d, ["sections", "s", "body"], text));
      await until(() => theirs.doc().sections.s.body === text, `edit ${round} to arrive after ${what}`);
    }
  }
  assert.equal(disconnected, 0);
  assert.equal((await fetch(`${server}/healthz`)).status, 200);
});

test("a sync message that is none closes its sender alone", async (t) => {
  const a = connect(t, alice.key);
  const mine = a.create(oneSection("calm"));
  await until(() => restText(mine.documentId).catch(() => undefined), "the document to be stored");
  const villain = connect(t, bob.key);
  await villain.find(mine.url);
  const closed = closeCode(villain);
  // A Bloom filter of one entry with no bits an entry: it kills or wedges other servers.
  const zeroBits = Uint8Array.from([0x42, 0, 0, 1, 0, 3, 1, 0, 7, 0]);
  const [peer] = villain.peers;
  villain.adapter.send({ type: "sync", senderId: villain.peerId, targetId: peer, documentId: mine.documentId, data: zeroBits });
  assert.equal(await closed, 4400);
  mine.change((d) => updateText(d, ["sections", "s", "body"], "still calm"));
  await until(async () => (await restText(mine.documentId)) === "still calm", "the next edit");
});

test("a refused key is told so, and does not crash a stock client", async (t) => {
  const socket = new WebSocket(address("cw_nobodys"));
  const said = once(socket, "message");
  const [code, reason] = await once(socket, "close");
  assert.equal(code, 4401);
  assert.match(String(reason), /^UNAUTHORIZED: /);
  assert.match(String((await said)[0]), /error.*UNAUTHORIZED: /s);

  const stranger = connect(t, "cw_nobodys");
  await assert.rejects(stranger.find("automerge:389cWRA341DK3y5vMYBSkAS1zUSM"), /unavailable/);
});

test("a revoked key loses its sockets within a second", async (t) => {
  const carol = await newKey("carol");
  const c = connect(t, carol.key);
  const a = connect(t, alice.key);
  await until(() => c.peers.length && a.peers.length, "both to be greeted");
  const closed = closeCode(c).then((code) => [code, Date.now()]);
  await call("DELETE", `/keys/${carol.id}`); // also when it was only just made
  const since = Date.now();
  const [code, at] = await closed;
  assert.equal(code, 4401);
  assert.ok(at - since < 1000, `it took ${at - since} ms`);
  assert.equal(a.adapter.socket.readyState, WebSocket.OPEN);
});

test("a request that is no upgrade is answered in JSON", async () => {
  const plain = await fetch(`${server}/api/v1/sync`);
  assert.equal(plain.status, 401);
  assert.equal((await plain.json()).error, "UNAUTHORIZED");
  const withKey = await fetch(`${server}/api/v1/sync`, { headers: { Authorization: `Bearer ${alice.key}` } });
  assert.equal(withKey.status, 426);
  assert.equal((await withKey.json()).error, "BAD_REQUEST");
});
