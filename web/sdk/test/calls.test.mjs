import assert from "node:assert/strict";
import test from "node:test";
import { connect, ConnectionError, Pauses, Refusal } from "cowrite";
import { call, newClient, newLine, newSeed, random, SteppedTimers } from "./lib.mjs";

test("documents and sections, from one end to the other", async (t) => {
  const client = await newClient(t, "caller");
  const document = await client.create({ title: "Guide 😀", markdown: "# Guide\n\n## First\n\none\n" });
  const { sections, me, ignored } = await document.read();
  assert.deepEqual(sections.map((s) => s.heading), ["Guide", "First"]);
  assert.equal(me.agent, "caller");
  assert.deepEqual(ignored, []);
  const [top, first] = sections;
  assert.ok(top && first);

  const text = await document.edit(await document.section(first.id), { text: "## First\n\n1 😀\n" });
  assert.equal(text.text, "## First\n\n1 😀\n");
  const ops = await document.edit(text, { ops: [{ at: text.text.indexOf("😀"), delete: 2, insert: "🎉" }] });
  assert.equal(ops.text, "## First\n\n1 🎉\n");
  const replaced = await document.edit(ops, { replace: [{ find: "🎉", with: "𝄞" }] });
  assert.equal(replaced.text, "## First\n\n1 𝄞\n");
  assert.equal(replaced.merged, false);
  await assert.rejects(document.edit(first.id, { replace: [{ find: "nowhere", with: "" }] }), (err) => {
    assert.ok(err instanceof Refusal);
    assert.equal(err.code, "TEXT_NOT_FOUND");
    assert.equal(err.status, 409);
    assert.equal(err.facts.version, replaced.version);
    return true;
  });
  await assert.rejects(document.edit(replaced, { ops: [{ at: 13, insert: "inside of 𝄞" }] }), RangeError);

  const second = await document.add("## Second\n", { after: top.id });
  const third = await document.put("third", "## Third\n");
  assert.equal(third.id, "third");
  await assert.rejects(document.put("third", "## 3rd\n"), (err) => err instanceof Refusal && err.code === "BASE_REQUIRED");
  await document.put("third", "## 3rd\n", { base: third.version });
  await document.move("third", "");
  assert.equal(await document.markdown(), "## 3rd\n# Guide\n\n## Second\n## First\n\n1 𝄞\n");
  await document.remove(second.id);
  assert.deepEqual((await document.read()).removed.map((s) => s.id), [second.id]);
  await document.restore(second.id);
  await document.revert(first.id, text.version);
  assert.equal((await document.section(first.id)).text, "## First\n\n1 😀\n");
  assert.equal((await document.read({ version: ops.version })).sections.find((s) => s.id === first.id)?.text, "## First\n\n1 🎉\n");
  const { events } = await document.history(first.id);
  assert.deepEqual(new Set(events.map((event) => event.actor_id)), new Set(["caller"]));

  const before = document.ref;
  await document.rename({ title: "Manual", slug: `${before}-2` });
  assert.equal((await client.document(before).read()).title, "Manual", "the former slug leads there");
  const listed = [];
  for await (const entry of client.documents()) listed.push(entry.slug);
  assert.ok(listed.includes(`${before}-2`));
  const renamed = client.document(`${before}-2`);
  await renamed.delete();
  await assert.rejects(renamed.read(), (err) => err instanceof Refusal && err.code === "DOCUMENT_DELETED");
  const gone = [];
  for await (const entry of client.deleted()) gone.push(entry);
  assert.deepEqual(gone.filter((entry) => entry.slug === `${before}-2`).map((entry) => [entry.title, entry.deletedBy]), [["Manual", "caller"]]);
  assert.equal((await renamed.undelete()).title, "Manual");
  assert.equal((await renamed.read()).slug, `${before}-2`);
});

test("what is written is written once, also when its answer is lost", async (t) => {
  const { slug, sections } = await call("POST", "/documents", { markdown: "# Once\n" });
  const line = await newLine(t);
  const document = (await newClient(t, "retrier", { url: line.url })).document(slug);
  const base = await document.section(sections[0].id);
  line.loseAnswers = 2;
  const written = await document.edit(base, { ops: [{ at: base.text.length, insert: "\nexactly once\n" }] });
  assert.ok(line.connections >= 3, "no answer was lost");
  assert.equal(written.repeated, true);
  line.loseAnswers = 1;
  await document.add("## Added\n");
  line.loseAnswers = 1;
  await document.put("put", "## Put\n");
  line.loseAnswers = 1;
  await document.remove("put");
  assert.equal(await document.markdown(), "# Once\n\nexactly once\n## Added\n");
  line.loseAnswers = 1;
  await document.post({ n: 1 });
  const { events } = await document.events();
  assert.equal(events.filter((event) => event.event_type === "message.posted").length, 1);

  const named = { idempotencyKey: `first-line-of-${slug}` };
  await document.edit(written, { ops: [{ at: 0, insert: "!" }] }, named);
  const again = await document.edit(written, { ops: [{ at: 0, insert: "!" }] }, named);
  assert.equal(again.repeated, true);
  assert.equal(again.text, "!# Once\n\nexactly once\n");

  // Every write may be named, also over two clients.
  const name = (what) => ({ idempotencyKey: `${what}-${slug}` });
  for (const client of [document, (await newClient(t, "retrier")).document(slug)]) {
    await client.post({ n: 2 }, name("post"));
    await client.add("## Named\n", { id: "named", ...name("add") });
    await client.move("named", "", name("move"));
    await client.remove("named", name("remove"));
    await client.restore("named", name("restore"));
  }
  const all = (await document.events({ limit: 1_000 })).events;
  const counts = (type) => all.filter((event) => event.event_type === type && (event.payload.sectionId ?? "named") === "named").length;
  assert.deepEqual(["message.posted", "section.moved", "section.removed", "section.restored"].map(counts), [2, 1, 1, 1]);
});

/** A client in stepped time whose answers are given by hand. */
function stepped(answer, options = {}) {
  const timers = new SteppedTimers();
  const calls = [];
  const fetch = async (_, request) => {
    calls.push({ at: timers.now(), key: request.headers["Idempotency-Key"] });
    return answer(calls.length);
  };
  return { timers, calls, document: connect({ url: "http://server", key: "k", fetch, timers, random: () => 0.5, ...options }).document("d") };
}

const down = () => {
  throw new TypeError("the network is down");
};

test("retries come after growing pauses, under one key, and end", async () => {
  const { timers, calls, document } = stepped(down, { retryMs: 2_000 });
  const edit = assert.rejects(document.edit("s", { replace: [{ find: "a", with: "b" }] }), ConnectionError);
  await timers.pass(10_000);
  await edit;
  assert.deepEqual(calls.map((c) => c.at), [0, 100, 300, 700, 1500]);
  assert.equal(new Set(calls.map((c) => c.key)).size, 1);
  assert.match(calls[0]?.key ?? "", /^[0-9a-f]{32}$/);
});

test("a server that is not able to waits as it says; what it refuses is final", async () => {
  const busy = () => Response.json({ error: "BUSY", message: "too much to do" }, { status: 503, headers: { "Retry-After": "3" } });
  const { timers, calls, document } = stepped((n) => (n === 1 ? busy() : Response.json({ error: "FORBIDDEN", message: "no" }, { status: 403 })));
  const read = assert.rejects(document.read(), (err) => err instanceof Refusal && err.code === "FORBIDDEN");
  await timers.pass(10_000);
  await read;
  assert.deepEqual(calls.map((c) => c.at), [0, 3_000]);
});

test("answers that are not the server's are told apart", async () => {
  const page = (status) => stepped(() => new Response("<html>", { status })).document.read();
  await assert.rejects(page(404), (err) => err instanceof Refusal && err.code === "HTTP_404");
  await assert.rejects(page(200), (err) => err instanceof ConnectionError && /not JSON/.test(err.message));
  const { timers, calls, document } = stepped(() => new Response("<html>", { status: 502 }), { retryMs: 250 });
  const read = assert.rejects(document.read(), (err) => err instanceof Refusal && err.status === 502);
  await timers.pass(1_000);
  await read;
  assert.equal(calls.length, 2);
});

test("a signal ends a call in its pause", async () => {
  const { timers, document } = stepped(down);
  const controller = new AbortController();
  const read = assert.rejects(document.read({ signal: controller.signal }), /enough/);
  await timers.pass(150);
  controller.abort(new Error("enough"));
  await read;
  assert.equal(timers.pending.size, 0);
});

test("pauses grow to a most, and differ", (t) => {
  const chance = random(newSeed(t));
  const pauses = new Pauses(chance, 100, 1_000);
  const all = Array.from({ length: 200 }, () => pauses.next());
  all.forEach((ms, i) => {
    const mean = Math.min(1_000, 100 * 2 ** i);
    assert.ok(ms >= mean / 2 && ms < mean * 1.5, `${ms} at ${i}`);
  });
  assert.ok(new Set(all).size > 190);
  pauses.reset();
  assert.ok(pauses.next() < 150);
});
