import assert from "node:assert/strict";
import test from "node:test";
import { connect, LeaseConflictError, LeaseManager, Refusal } from "cowrite";
import { call, newClient, newKey, newLine, server, settled, SteppedTimers, until } from "./lib.mjs";

const newDocument = () => call("POST", "/documents", { markdown: "# Introduction\n\ntext\n" });

test("acquire, conflict, renew and release", async (t) => {
  const { slug } = await newDocument();
  const mine = (await newClient(t, "lease-alpha")).document(slug);
  const theirs = (await newClient(t, "lease-beta")).document(slug);
  const lease = await mine.lease("intro", { seconds: 60, reason: "rewriting" });
  assert.equal(lease.holder, "lease-alpha");
  assert.ok(lease.remainingMs > 50_000 && lease.remainingMs <= 60_000);
  await assert.rejects(theirs.lease("intro"), (err) => {
    assert.ok(err instanceof LeaseConflictError);
    assert.equal(err.holder, "lease-alpha");
    assert.equal(err.expiresAt, lease.expiresAt);
    assert.equal(err.code, "SECTION_LEASED");
    assert.equal(err.facts.reason, "rewriting");
    assert.ok(err.expiresInMs && err.expiresInMs > 50_000);
    return true;
  });
  const holder = await theirs.holder("intro");
  assert.equal(holder?.leaseId, lease.leaseId);
  await lease.renew(120);
  assert.ok(lease.remainingMs > 110_000);
  await lease.release();
  assert.equal(lease.held, false);
  assert.equal(lease.remainingMs, 0);
  assert.equal(await theirs.holder("intro"), undefined);
  await assert.rejects(lease.release(), (err) => err instanceof Refusal && err.code === "NO_ACTIVE_LEASE");
});

test("waiting stands in the queue, and giving up leaves it", async (t) => {
  const { slug } = await newDocument();
  const mine = (await newClient(t, "queue-alpha")).document(slug);
  const theirs = (await newClient(t, "queue-beta")).document(slug);
  const lease = await mine.lease("intro");
  const waiting = theirs.lease("intro", { waitSeconds: 60 });
  const queue = async () => (await mine.leases()).queues.flatMap((q) => q.waiters.map((w) => w.agent));
  await until(async () => (await queue()).length === 1, "a place in the queue");
  assert.deepEqual(await queue(), ["queue-beta"]);
  await lease.release();
  const next = await waiting;
  assert.ok(next.fence > lease.fence);

  const controller = new AbortController();
  const givenUp = mine.lease("intro", { waitSeconds: 60, signal: controller.signal });
  await until(async () => (await queue()).length === 1, "a place in the queue");
  controller.abort(new Error("enough"));
  await assert.rejects(givenUp, /enough/);
  assert.deepEqual(await queue(), []);
  await assert.rejects(mine.lease("intro", { waitSeconds: 0.2 }), LeaseConflictError);
  assert.deepEqual(await queue(), []);
  await next.release();
});

test("a lease that renews itself outlives its first end", async (t) => {
  const { slug } = await newDocument();
  const document = (await newClient(t, "renewer")).document(slug);
  const lost = [];
  const lease = await document.lease("intro", { seconds: 1.5, onLost: (l) => lost.push(l) });
  const first = lease.expiresAt;
  await until(() => Date.parse(lease.expiresAt) - Date.parse(first) > 3_000, "several renewals");
  assert.deepEqual(lost, []);
  assert.equal((await document.holder("intro"))?.leaseId, lease.leaseId);
  await lease.release();
});

test("the former holder is told when its lease is broken", async (t) => {
  const { slug } = await newDocument();
  const all = [];
  const client = await newClient(t, "broken", { onLeaseLost: (lost) => all.push(...lost) });
  const document = client.document(slug);
  const lost = [];
  const lease = await document.lease("intro", { onLost: (l) => lost.push(l) });
  const other = await document.lease("other", { onLost: (l) => lost.push(l) });
  await call("DELETE", `/documents/${slug}/sections/intro/lease?force=true&reason=stuck`);
  await document.section((await document.read()).sections[0]?.id ?? ""); // told on its next call
  assert.equal(lost.length, 1);
  assert.equal(lost[0].leaseId, lease.leaseId);
  assert.equal(lost[0].action, "force");
  assert.equal(lost[0].by, "admin");
  assert.equal(lost[0].reason, "stuck");
  assert.ok(all.some((l) => l.leaseId === lease.leaseId), "the client is told as well");
  assert.equal(lease.held, false);
  assert.equal(other.held, true);
});

test("an open mirror hears at once that a lease was broken", async (t) => {
  const { slug } = await newDocument();
  const document = (await newClient(t, "listening")).document(slug);
  await document.mirror();
  /** @type {import("cowrite").LostLease[]} */
  const lost = [];
  await document.lease("intro", { onLost: (l) => lost.push(l) });
  await call("DELETE", `/documents/${slug}/sections/intro/lease?force=true`);
  await until(() => lost.length > 0, "the news");
  assert.equal(lost[0].action, "force");
});

test("a lost answer makes no second lease", async (t) => {
  const { slug } = await newDocument();
  const line = await newLine(t);
  const document = (await newClient(t, "unlucky", { url: line.url })).document(slug);
  line.loseAnswers = 1;
  const lease = await document.lease("intro");
  assert.ok(line.connections >= 2, "the answer was not lost");
  assert.equal(lease.granted, true, "the retry is answered like the call");
  assert.equal((await document.lease("intro")).granted, false, "it was there before");
  line.loseAnswers = 1;
  await lease.release();
  const { events } = await call("GET", `/documents/${slug}/events`);
  assert.deepEqual(events.map((event) => event.event_type), ["document.created", "section.leased", "section.lease_renewed", "section.lease_released"]);
});

/** A client in stepped time, whose lease calls are answered by hand. */
function stepped(answer) {
  const timers = new SteppedTimers();
  const calls = [];
  const fetch = async (_, request) => {
    calls.push({ at: timers.now(), method: request.method });
    return answer(request, calls.length);
  };
  return { timers, calls, client: connect({ url: "http://server", key: "k", fetch, timers, random: () => 0.5, retryMs: 0 }) };
}

// expiresAt is an hour off: durations count, not clocks.
const granted = (expiresInMs) =>
  Response.json({ leaseId: "l", holder: "a", expiresAt: "2020-01-01T00:00:00.000Z", expiresInMs, acquiredAt: "", fence: 1, mode: "exclusive", sectionId: "s", advisory: "" });

test("renewals come after each third of the time, whatever the clocks say", async () => {
  const { timers, calls, client } = stepped(() => granted(60_000));
  const lease = await client.document("d").lease("s", { seconds: 60 });
  await timers.pass(130_000);
  assert.deepEqual(calls, [{ at: 0, method: "POST" }, ...[20_000, 40_000, 60_000, 80_000, 100_000, 120_000].map((at) => ({ at, method: "PATCH" }))]);
  assert.equal(lease.remainingMs, 50_000);
  lease.stopAutoRenew();
  await timers.pass(49_999);
  assert.equal(lease.held, true);
  await timers.pass(1);
  assert.equal(lease.held, false);
  client.close();
});

test("a renewal that fails is tried again until the lease is over, which is told once", async () => {
  /** @type {import("cowrite").LostLease[]} */
  const lost = [];
  const { timers, calls, client } = stepped((_, n) => {
    if (n === 1) return granted(27_000);
    throw new TypeError("the network is down");
  });
  const lease = await client.document("d").lease("s", { seconds: 27, onLost: (l) => lost.push(l) });
  await timers.pass(26_999);
  assert.equal(lost.length, 0);
  assert.deepEqual(calls.slice(1, 4).map((c) => c.at), [9_000, 15_000, 19_000]);
  await timers.pass(60_000);
  assert.equal(lost.length, 1);
  assert.equal(lost[0].leaseId, "l");
  assert.equal(lost[0].action, "expire");
  assert.equal(lease.held, false);
  assert.ok(calls.every((c) => c.at < 27_000), "it was not renewed after its end");
  assert.equal(timers.pending.size, 0);
});

test("a renewal that hangs is given up in time, and asked for again", async () => {
  const lost = [];
  const { timers, calls, client } = stepped((request, n) => {
    if (n === 1 || n > 3) return granted(27_000);
    return new Promise((_, reject) => request.signal.addEventListener("abort", () => reject(request.signal.reason), { once: true }));
  });
  const lease = await client.document("d").lease("s", { seconds: 27, onLost: (l) => lost.push(l) });
  await timers.pass(40_000);
  assert.deepEqual(calls.map((c) => Math.round(c.at)), [0, 9_000, 19_000, 23_444, 32_444], "each attempt has a third of the time left");
  assert.deepEqual(lost, []);
  assert.equal(lease.held, true);
  client.close();
  assert.equal(timers.pending.size, 0);
});

test("what fails at the server costs no lease", async () => {
  for (const status of [429, 500, 501, 502, 503, 504, 599]) {
    const lost = [];
    const { timers, calls, client } = stepped((_, n) => (n === 2 ? Response.json({ error: "INTERNAL", message: "no" }, { status }) : granted(27_000)));
    const lease = await client.document("d").lease("s", { seconds: 27, onLost: (l) => lost.push(l) });
    await timers.pass(20_000);
    assert.deepEqual(calls.map((c) => c.at), [0, 9_000, 15_000], `after ${status}`);
    assert.deepEqual(lost, []);
    assert.equal(lease.held, true);
    client.close();
  }
});

test("a renewal that is refused ends the lease", async () => {
  const lost = [];
  const { timers, client } = stepped((_, n) =>
    n === 1 ? granted(30_000) : Response.json({ error: "NOT_HOLDER", message: "somebody else holds this lease", holder: "b" }, { status: 403 }),
  );
  await client.document("d").lease("s", { seconds: 30, onLost: (l) => lost.push(l) });
  await timers.pass(10_000);
  await settled();
  assert.equal(lost.length, 1);
  assert.equal(lost[0].action, "refused");
  assert.match(lost[0].reason, /NOT_HOLDER/);
});

test("a manager renews when its threshold is left, and a short lease not all the time", async () => {
  const { timers, calls, client } = stepped(() => granted(60_000));
  client.close();
  const manage = (expiresInMs) => {
    calls.length = 0;
    return new LeaseManager("http://server/", "k", {
      timers, fetch: async (_, request) => (calls.push({ at: timers.now(), method: request.method }), granted(expiresInMs)),
    });
  };
  const long = manage(60_000);
  await long.acquire("d", "s", 60);
  long.startAutoRenew(10);
  await timers.pass(55_000);
  assert.deepEqual(calls.map((c) => c.at), [0, 50_000]);
  long.stopAutoRenew();
  const start = timers.now();
  const short = manage(3_000);
  await short.acquire("d", "s", 3);
  short.startAutoRenew();
  await timers.pass(2_500);
  assert.deepEqual(calls.map((c) => c.at - start), [0, 1_000, 2_000]);
  short.stopAutoRenew();
});

test("a manager has one lease at a time", async (t) => {
  const { slug } = await newDocument();
  const { key } = await newKey("managed");
  const manager = new LeaseManager(server, key);
  assert.equal(manager.leaseId, null);
  await assert.rejects(manager.release(), /no lease/);
  const lease = await manager.acquire(slug, "intro", 60, "for a test");
  assert.equal(manager.leaseId, lease.leaseId);
  const before = manager.expiresAt;
  const renewed = await manager.renew(120);
  assert.equal(renewed.leaseId, lease.leaseId);
  assert.ok(Date.parse(manager.expiresAt ?? "") > Date.parse(before ?? ""));
  const other = (await newClient(t, "managed-too")).document(slug);
  await assert.rejects(other.lease("intro"), LeaseConflictError);
  await manager.release();
  assert.equal(manager.leaseId, null);
  assert.equal(manager.expiresAt, null);
});
