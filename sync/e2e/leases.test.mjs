import assert from "node:assert/strict";
import net from "node:net";
import test from "node:test";
import { LeaseConflictError, LeaseManager, watchDocument } from "llmtxt";
import { call, newKey, server, sleep, until } from "./lib.mjs";

const alice = await newKey("agent-alpha");
const bob = await newKey("agent-beta");

const newDocument = () => call("POST", "/documents", { markdown: "# Introduction\n\ntext\n" });

test("acquire, conflict, renew and release", async () => {
  const { slug } = await newDocument();
  const mine = new LeaseManager(server, alice.key);
  const theirs = new LeaseManager(server, bob.key);
  const before = Date.now();
  const lease = await mine.acquire(slug, "intro", 60, "Rewriting introduction");
  assert.equal(lease.holder, "agent-alpha");
  assert.equal(mine.leaseId, lease.leaseId);
  assert.match(lease.expiresAt, /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$/);
  const lasts = Date.parse(lease.expiresAt) - before;
  assert.ok(lasts > 58_000 && lasts < 62_000, `it lasts ${lasts} ms`);

  await assert.rejects(theirs.acquire(slug, "intro", 60), (err) => {
    assert.ok(err instanceof LeaseConflictError);
    assert.equal(err.holder, "agent-alpha");
    assert.equal(err.expiresAt, lease.expiresAt);
    return true;
  });

  const renewed = await mine.renew(120);
  assert.equal(renewed.leaseId, lease.leaseId);
  assert.ok(Date.parse(renewed.expiresAt) - Date.parse(lease.expiresAt) > 55_000);
  assert.equal(mine.expiresAt, renewed.expiresAt);

  await mine.release();
  assert.equal(mine.leaseId, null);
  const next = await theirs.acquire(slug, "intro", 30);
  assert.equal(next.holder, "agent-beta");
  assert.notEqual(next.leaseId, lease.leaseId);
  await theirs.release();
});

test("nobody releases or renews another's lease", async () => {
  const { slug } = await newDocument();
  const mine = new LeaseManager(server, alice.key);
  await mine.acquire(slug, "intro", 60);
  // A manager that believes it holds the lease, with another agent's key.
  const impostor = new LeaseManager(server, bob.key);
  Object.assign(impostor, { _slug: slug, _sectionId: "intro", _leaseId: mine.leaseId });
  await assert.rejects(impostor.release(), /release failed: 403 .*NOT_HOLDER/);
  await assert.rejects(impostor.renew(60), /renew failed: 403 .*NOT_HOLDER/);
  await mine.release();
});

test("a lease that renews itself outlives its first end", async (t) => {
  const { slug } = await newDocument();
  const mine = new LeaseManager(server, alice.key);
  const lease = await mine.acquire(slug, "intro", 2);
  mine.startAutoRenew(10);
  t.after(() => mine.stopAutoRenew());
  await until(() => mine.expiresAt !== lease.expiresAt, "a renewal");
  await sleep(Math.max(0, Date.parse(lease.expiresAt) + 300 - Date.now()));
  await assert.rejects(new LeaseManager(server, bob.key).acquire(slug, "intro", 60), LeaseConflictError);
  await mine.release();
});

test("a lease ends exactly when it said, and the log tells", async () => {
  const { slug } = await newDocument();
  const mine = new LeaseManager(server, alice.key);
  const theirs = new LeaseManager(server, bob.key);
  const lease = await mine.acquire(slug, "intro", 1);
  await sleep(Date.parse(lease.expiresAt) - Date.now() + 50);
  const next = await theirs.acquire(slug, "intro", 60);
  assert.equal(next.holder, "agent-beta");
  await assert.rejects(mine.renew(60), /renew failed: 403 .*NOT_HOLDER/);
  await theirs.release();

  const seen = [];
  for await (const event of watch(slug)) {
    seen.push(event.payload.event ?? event.event_type);
    if (seen.at(-1) === "SECTION_LEASE_RELEASED") break;
  }
  assert.deepEqual(seen, ["document.created", "SECTION_LEASED", "SECTION_LEASE_EXPIRED", "SECTION_LEASED", "SECTION_LEASE_RELEASED"]);
});

/** Watches a document from its first event, or from a sequence number on. */
const watch = (slug, options = {}, at = server) => watchDocument(at, slug, { apiKey: alice.key, ...options });

test("the stream resumes after a cut without gap or repeat", async (t) => {
  const { slug } = await newDocument();
  const wire = await cuttable(t);
  const abort = new AbortController();
  const seen = [];
  const watching = (async () => {
    for await (const event of watch(slug, { signal: abort.signal }, wire.url)) seen.push(event);
  })();
  const say = (n) => call("POST", `/documents/${slug}/events`, { n }, { key: bob.key });

  let n = 0;
  for (const cuts of [1, 2, 3]) {
    for (let i = 0; i < 5; i++) await say(++n);
    await until(() => seen.length === n + 1, "all events so far");
    wire.cut();
    for (let i = 0; i < 5; i++) await say(++n); // while nobody watches
    if (cuts === 2) wire.cut(); // and again while it comes back
    await until(() => seen.length === n + 1, "the events behind the cut");
  }
  abort.abort();
  await watching;
  assert.ok(wire.connections() > 3, "the stream was not cut");
  assert.deepEqual(seen.map((event) => event.seq), Array.from({ length: n + 1 }, (_, i) => String(i + 1)));
  assert.deepEqual(seen.slice(1).map((event) => event.payload.n), Array.from({ length: n }, (_, i) => i + 1));
  assert.equal(new Set(seen.map((event) => event.id)).size, n + 1);
});

test("a stream begins behind the event that it is told", async () => {
  const { slug } = await newDocument();
  for (const n of [1, 2, 3]) await call("POST", `/documents/${slug}/events`, { n });
  const seen = [];
  for await (const event of watch(slug, { fromSeq: 2 })) {
    seen.push(event.seq);
    if (seen.length === 2) break;
  }
  assert.deepEqual(seen, ["3", "4"]);
});

/** A line to the server that can be cut. */
async function cuttable(t) {
  const open = new Set();
  let connections = 0;
  const { hostname, port } = new URL(server);
  const proxy = net.createServer((near) => {
    connections++;
    const far = net.connect(Number(port), hostname);
    for (const [from, to] of [[near, far], [far, near]]) {
      open.add(from);
      from.on("error", () => {}); // a cut is one
      from.on("close", () => {
        open.delete(from);
        to.destroy();
      });
      from.pipe(to);
    }
  });
  await new Promise((resolve) => proxy.listen(0, "127.0.0.1", resolve));
  const cut = () => open.forEach((socket) => socket.destroy());
  t.after(() => {
    cut();
    proxy.close();
  });
  return { url: `http://127.0.0.1:${proxy.address().port}`, cut, connections: () => connections };
}
