import assert from "node:assert/strict";
import test from "node:test";
import { applyOps, ConnectionError, Refusal } from "cowrite";
import WebSocket from "ws";
import { call, newClient, newKey, newLine, newSeed, random, SteppedTimers, settled, until } from "./lib.mjs";

const newDocument = (markdown = "# One 😀\n\nfirst\n\n## Two\n\nsecond\n") => call("POST", "/documents", { markdown });

/** What REST says of a document that a mirror should be saying too. */
async function rest(slug) {
  const { title, version, sections, removed } = await call("GET", `/documents/${slug}`);
  return { title, version, sections, removed };
}

const seen = ({ title, version, sections, removed }) => ({ title, version, sections, removed });

/** Waits until a mirror is at REST's version, and says what it then holds. */
async function caughtUp(mirror, slug) {
  const said = await rest(slug);
  await mirror.until((m) => m.version === said.version, AbortSignal.timeout(20_000));
  assert.deepEqual(seen(mirror), said);
}

test("a mirror has what REST has, and follows", async (t) => {
  const { slug } = await newDocument();
  const client = await newClient(t, "watcher");
  const mirror = await client.document(slug).mirror();
  await caughtUp(mirror, slug);
  assert.equal(mirror.markdown, "# One 😀\n\nfirst\n\n## Two\n\nsecond\n");
  const changes = [];
  mirror.onChange((change) => changes.push(change));
  const [one, two] = mirror.sections;
  assert.ok(one && two);

  await call("PATCH", `/documents/${slug}/sections/${one.id}`, { ops: [{ at: 5, delete: 1, insert: "𝄞𝄞" }] }); // code points
  await caughtUp(mirror, slug);
  const [{ authors, sections }] = changes;
  assert.deepEqual(authors, ["admin"]);
  assert.equal(sections[0].after.text, "# One𝄞𝄞😀\n\nfirst\n\n");
  assert.equal(applyOps(sections[0].before.text, sections[0].ops), sections[0].after.text, "operations are in UTF-16 units");

  await call("POST", `/documents/${slug}/sections`, { text: "## Three\n", after: one.id });
  await call("POST", `/documents/${slug}/sections/${two.id}/move`, { after: "" });
  await call("DELETE", `/documents/${slug}/sections/${one.id}`);
  await call("PATCH", `/documents/${slug}`, { title: "Another" });
  await caughtUp(mirror, slug);
  assert.equal(mirror.title, "Another");
  assert.deepEqual(mirror.sections.map((s) => s.heading), ["Two", "Three"]);
  assert.deepEqual(mirror.removed.map((s) => s.id), [one.id]);
});

test("an edit on a mirror's section merges, and its places count UTF-16 units", async (t) => {
  const { slug } = await newDocument("# 😀 first second\n");
  const client = await newClient(t, "editor-1");
  const document = client.document(slug);
  const mirror = await document.mirror();
  const base = mirror.section(mirror.sections[0]?.id ?? "");
  assert.ok(base);
  await call("PATCH", `/documents/${slug}/sections/${base.id}`, { replace: [{ find: "first", with: "𝄞 1st 𝄞" }] });
  const written = await document.edit(base, { ops: [{ at: base.text.indexOf("second"), delete: 6, insert: "last 🎉" }] });
  assert.equal(written.text, "# 😀 𝄞 1st 𝄞 last 🎉\n");
  assert.ok(written.merged);
  assert.deepEqual(written.mergedFrom?.agents, ["admin"]);
  const ranges = written.mergedFrom?.ranges ?? [];
  assert.ok(ranges.length > 0);
  for (const { at, length } of ranges) assert.ok("𝄞 1st 𝄞".includes(written.text.slice(at, at + length)));
  await caughtUp(mirror, slug);
});

test("a mirror that has caught up has what was acknowledged before", async (t) => {
  const { slug, sections } = await newDocument();
  const line = await newLine(t);
  const client = await newClient(t, "own-reader", { url: line.url });
  const document = client.document(slug);
  const mirror = await document.mirror();
  let base = mirror.section(sections[0].id);
  for (let n = 0; n < 20; n++) {
    assert.ok(base);
    const written = await document.edit(base, { ops: [{ at: base.text.length, insert: `${n} 😀\n` }] });
    if (n === 10) line.cut();
    await mirror.catchUp();
    base = mirror.section(sections[0].id);
    assert.equal(base?.text, written.text);
    assert.equal(base?.version, written.version);
  }
  await caughtUp(mirror, slug);
});

test("a mirror that was cut off catches up from where it was", async (t) => {
  const { slug, sections } = await newDocument();
  const line = await newLine(t);
  const client = await newClient(t, "traveller", { url: line.url });
  const mirror = await client.document(slug).mirror();
  const anew = [];
  mirror.onChange((change) => anew.push(change.from === undefined));
  for (let round = 0; round < 3; round++) {
    const before = line.connections;
    line.cut();
    await call("PATCH", `/documents/${slug}/sections/${sections[0].id}`, { replace: [{ find: "first", with: `first 🎈${round}` }] });
    await caughtUp(mirror, slug);
    assert.ok(line.connections > before, "the line was not cut");
  }
  assert.ok(anew.length >= 3 && !anew.includes(true), "only differences were sent");
});

test("mirrors of one document are one, until the last is closed", async (t) => {
  const { slug, sections } = await newDocument();
  const client = await newClient(t, "twice");
  const [one, other] = await Promise.all([client.document(slug).mirror(), client.document(slug).mirror()]);
  assert.equal(one, other);
  one.close();
  await call("PATCH", `/documents/${slug}/sections/${sections[0].id}`, { replace: [{ find: "first", with: "1st" }] });
  await caughtUp(other, slug);
  other.close();
  assert.ok(other.failure);
  const third = await client.document(slug).mirror();
  assert.notEqual(third, one);
  await caughtUp(third, slug);
});

test("a mirror says why it follows no longer", async (t) => {
  const { slug } = await newDocument();
  const { key, id } = await newKey("short-lived");
  const client = await newClient(t, "short-lived", { key });
  await assert.rejects(client.document("no-such-document").mirror(), (err) => err instanceof Refusal && err.code === "DOCUMENT_NOT_FOUND");
  const deleted = await newDocument();
  const gone = await client.document(deleted.slug).mirror();
  const mirror = await client.document(slug).mirror();
  await call("DELETE", `/documents/${deleted.slug}`);
  await assert.rejects(gone.until(() => false), (err) => err instanceof Refusal && err.code === "DOCUMENT_DELETED");
  assert.equal(mirror.failure, undefined, "the other document is open still");
  await call("DELETE", `/keys/${id}`);
  await assert.rejects(mirror.until(() => false), (err) => err instanceof Refusal && err.code === "KEY_REVOKED");
  await assert.rejects(client.document(slug).mirror(), (err) => err instanceof Refusal && err.status === 0);
});

test("a mirror needs a WebSocket, and gives up with its signal", async (t) => {
  const { slug } = await newDocument();
  class Nothing extends EventTarget {
    send() {}
    close() {}
  }
  const client = await newClient(t, "impatient", { WebSocket: Nothing });
  const controller = new AbortController();
  const waiting = client.document(slug).mirror({ signal: controller.signal });
  controller.abort(new Error("enough"));
  await assert.rejects(waiting, /enough/);
  if (typeof globalThis.WebSocket === "undefined") {
    const without = await newClient(t, "without", { WebSocket: undefined });
    await assert.rejects(without.document(slug).mirror(), ConnectionError);
    await assert.rejects(without.document(slug).mirror(), ConnectionError);
  }
});

/** A WebSocket whose other end is the test; made has each that was opened. */
function sockets(timers = new SteppedTimers()) {
  const made = [];
  class Fake extends EventTarget {
    sent = [];
    constructor() {
      super();
      made.push({ at: timers.now(), socket: this });
    }
    send(frame) {
      this.sent.push(JSON.parse(frame));
    }
    close() {}
    say(frame) {
      this.dispatchEvent(new MessageEvent("message", { data: JSON.stringify(frame) }));
    }
    end(code) {
      this.dispatchEvent(Object.assign(new Event("close"), { code, reason: "" }));
    }
  }
  return { made, Fake };
}

test("pauses between connections grow, and a silent server is left", async (t) => {
  const timers = new SteppedTimers();
  const { made, Fake } = sockets(timers);
  const client = await newClient(t, "stepped", { WebSocket: Fake, timers, random: () => 0.5 });
  const opening = client.document("d").mirror();
  for (let i = 0; i < 9; i++) {
    made.at(-1).socket.end(1006);
    await timers.pass(10_000);
  }
  const pauses = made.slice(1).map(({ at }, i) => at - Math.max(made[i].at, i * 10_000));
  assert.deepEqual(pauses, [100, 200, 400, 800, 1600, 3200, 6400, 10_000, 10_000]);

  const { socket } = made.at(-1);
  socket.say({ type: "welcome" });
  const [{ id, document }] = socket.sent;
  socket.say({ type: "opened", id, document, title: "D", version: "v1", sections: [], removed: [] });
  const mirror = await opening;
  assert.equal(mirror.version, "v1");
  await timers.pass(10_000);
  assert.equal(socket.sent.at(-1).type, "close", "it asks whether anybody is there");
  socket.say({ type: "closed", id: socket.sent.at(-1).id, document: "-" });
  await timers.pass(19_999);
  assert.equal(made.length, 10);
  await timers.pass(101);
  assert.equal(made.length, 11, "nobody answered: another connection is made after the first pause");
  made.at(-1).socket.say({ type: "welcome" });
  assert.equal(made.at(-1).socket.sent[0].version, "v1", "it goes on from where it was");
  await settled();
});

test("a change that does not fit makes the mirror read the text anew", async (t) => {
  const { made, Fake } = sockets();
  const client = await newClient(t, "doubting", { WebSocket: Fake });
  const opening = client.document("d").mirror();
  const [{ socket }] = made;
  const section = { id: "s", heading: "", level: 0, position: "V", text: "a😀" };
  const open = (version) => socket.say({ type: "opened", id: socket.sent.at(-1).id, document: "d", title: "D", version, sections: [section] });
  socket.say({ type: "welcome" });
  open("v1");
  const mirror = await opening;
  const wrong = [
    { from: "v0", to: "v2", sections: [] },
    { from: "v1", to: "v2", sections: [{ ...section, text: undefined, ops: [{ at: 3, insert: "x" }] }] },
    { from: "v1", to: "v2", sections: [{ ...section, text: undefined, id: "other", ops: [] }] },
  ];
  for (const frame of wrong) {
    const asked = socket.sent.length;
    socket.say({ type: "changed", document: "d", ...frame });
    assert.equal(socket.sent.length, asked + 1);
    assert.equal(socket.sent.at(-1).version, undefined);
    assert.equal(mirror.sections[0]?.text, "a😀", "it is as it was");
    socket.say({ type: "changed", document: "d", from: "v1", to: "v3", sections: [] });
    assert.equal(mirror.version, "v1", "what comes before it is open again is not for it");
    open("v1");
  }
});

// Two clients edit in each of the three ways, on bases old and new, while a third writer knows nothing but PATCH and code
// points; lines are cut in between. Whenever all is quiet, every mirror is what REST says.
test("mirrors equal REST under random edits", async (t) => {
  const chance = random(newSeed(t));
  const pick = (n) => Math.floor(chance() * n);
  const of = (all) => all[pick(all.length)];
  const words = ["one ", "two\n", "😀", "𝄞𝄞 ", "漢字", "é", "\n\n", "👩‍🚀 "];
  const { slug } = await newDocument("# A 😀\n\nbegin\n\n## B\n\nmore 𝄞\n");
  const lines = [await newLine(t), await newLine(t)];
  const clients = [await newClient(t, "left", { url: lines[0]?.url, WebSocket }), await newClient(t, "right", { url: lines[1]?.url, WebSocket })];
  const documents = clients.map((client) => client.document(slug));
  const mirrors = await Promise.all(documents.map((document) => document.mirror()));
  /** @type {import("cowrite").Base[][]} */
  const bases = [[], []];
  const applied = [];
  mirrors.forEach((mirror, i) => {
    let text = new Map(mirror.sections.map((s) => [s.id, s.text]));
    mirror.onChange(({ from, sections }) => {
      for (const { id, before, after, ops } of sections) {
        if (from !== undefined && before && after) {
          assert.equal(before.text, text.get(id));
          assert.equal(applyOps(before.text, ops), after.text);
          applied.push(i);
        }
        if (after) text.set(id, after.text);
        else text.delete(id);
      }
    });
  });

  const edit = async (i) => {
    const mirror = mirrors[i];
    const all = [...mirror.sections, ...mirror.removed];
    const { id } = of(all);
    const now = mirror.section(id);
    assert.ok(now);
    bases[i].push(now);
    const base = of(bases[i].slice(-4));
    const characters = [...base.text];
    const units = (n) => characters.slice(0, n).join("").length;
    const from = pick(characters.length + 1);
    const to = Math.min(characters.length, from + pick(4));
    const insert = of(words);
    const change = of([
      () => ({ text: characters.toSpliced(from, to - from, insert).join("") }),
      () => ({ ops: [{ at: units(from), delete: units(to) - units(from), insert }] }),
      () => (from < to ? { replace: [{ find: characters.slice(from, to).join(""), with: insert, occurrence: 1 }] } : { ops: [{ at: units(from), insert }] }),
    ])();
    await documents[i].edit(base, change);
  };
  const patch = async () => {
    const { sections, version } = await call("GET", `/documents/${slug}`);
    const { id, text } = of(sections);
    const at = pick([...text].length + 1);
    await call("PATCH", `/documents/${slug}/sections/${id}`, { base: version, ops: [{ at, delete: 0, insert: of(words) }] });
  };
  const arrange = async () => {
    const { sections, removed } = await call("GET", `/documents/${slug}`);
    const { id } = of(sections);
    await of([
      () => documents[0].add(`## ${of(words)}\n`, { after: id }),
      () => documents[1].move(id, ""),
      () => (sections.length > 2 ? documents[0].remove(id) : undefined),
      () => (removed.length > 0 ? documents[1].restore(removed[0].id) : undefined),
    ])();
  };

  for (let round = 0; round < 12; round++) {
    const acts = Array.from({ length: 8 }, () => of([() => edit(0), () => edit(1), () => edit(0), () => edit(1), patch, arrange]));
    await Promise.all(acts.map((act) => act()));
    if (round % 3 === 2) of(lines).cut();
    for (const mirror of mirrors) await caughtUp(mirror, slug);
  }
  assert.ok(applied.includes(0) && applied.includes(1), "operations were applied");
});

test("a client that is closed leaves nothing behind", async (t) => {
  const { slug } = await newDocument();
  const open = new Set();
  const Counted = function (url, protocols) {
    const socket = new WebSocket(url, protocols);
    open.add(socket);
    socket.addEventListener("close", () => open.delete(socket));
    return socket;
  };
  const client = await newClient(t, "leaver", { WebSocket: Counted });
  const mirror = await client.document(slug).mirror();
  client.close();
  assert.ok(mirror.failure);
  await until(() => open.size === 0, "the socket to be closed");
});
