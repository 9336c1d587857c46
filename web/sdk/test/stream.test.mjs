import assert from "node:assert/strict";
import test from "node:test";
import { connect, Refusal, watchDocument } from "cowrite";
import { call, newClient, newKey, newLine, server, settled, SteppedTimers, until } from "./lib.mjs";

const newDocument = () => call("POST", "/documents", { markdown: "# Introduction\n" });

test("a stream resumes after a cut without gap or repeat", async (t) => {
  const { slug } = await newDocument();
  const line = await newLine(t);
  const document = (await newClient(t, "stream-reader", { url: line.url })).document(slug);
  const abort = new AbortController();
  const seen = [];
  const watching = (async () => {
    for await (const event of document.stream({ signal: abort.signal })) seen.push(event);
  })();
  let n = 0;
  const say = () => call("POST", `/documents/${slug}/events`, { n: ++n });
  for (let cuts = 0; cuts < 3; cuts++) {
    for (let i = 0; i < 5; i++) await say();
    await until(() => seen.length === n + 1, "all events so far");
    line.cut();
    for (let i = 0; i < 5; i++) await say(); // while nobody watches
    if (cuts === 1) line.cut(); // and again while it comes back
    await until(() => seen.length === n + 1, "the events behind the cut");
  }
  abort.abort();
  await watching; // it ends quietly
  assert.ok(line.connections > 3, "the stream was not cut");
  assert.deepEqual(seen.map((event) => event.seq), Array.from({ length: n + 1 }, (_, i) => String(i + 1)));
  assert.deepEqual(seen.slice(1).map((event) => event.payload.n), Array.from({ length: n }, (_, i) => i + 1));
});

test("a stream begins behind the event that it is told, and pages agree with it", async (t) => {
  const { slug } = await newDocument();
  const document = (await newClient(t, "stream-late")).document(slug);
  for (const n of [1, 2, 3]) await document.post({ n });
  const seen = [];
  for await (const event of document.stream({ since: 2 })) {
    seen.push(event);
    if (seen.length === 2) break;
  }
  const page = await document.events({ since: "2" });
  assert.deepEqual(seen, page.events);
  assert.deepEqual(seen.map((event) => [event.seq, event.actor_id, event.payload.n]), [["3", "stream-late", 2], ["4", "stream-late", 3]]);
  assert.equal(page.has_more, false);
  assert.equal(page.next_since, "4");
});

test("a stream ends with its document, and throws what is refused", async (t) => {
  const { slug } = await newDocument();
  await call("DELETE", `/documents/${slug}`); // a deletion that did not last is no end
  await call("POST", `/documents/${slug}/restore`);
  const client = await newClient(t, "stream-ender");
  const types = [];
  for await (const event of client.document(slug).stream()) {
    types.push(event.event_type);
    if (types.length === 3) await call("DELETE", `/documents/${slug}`);
  }
  assert.deepEqual(types, ["document.created", "document.deleted", "document.restored", "document.deleted"]);
  await assert.rejects(client.document("nowhere").stream().next(), (err) => err instanceof Refusal && err.code === "DOCUMENT_NOT_FOUND");
});

test("watchDocument is the same under the name that others know", async () => {
  const { slug } = await newDocument();
  const { key } = await newKey("stream-watcher");
  await call("POST", `/documents/${slug}/events`, { hello: "𝄞" });
  const seen = [];
  for await (const event of watchDocument(server, slug, { apiKey: key, fromSeq: 1 })) {
    seen.push(event.payload);
    break;
  }
  assert.deepEqual(seen, [{ hello: "𝄞" }]);
  const down = async () => {
    throw new TypeError("the network is down");
  };
  const timers = new SteppedTimers();
  const failing = assert.rejects(watchDocument("http://server", slug, { fetch: down, timers, maxReconnects: 2 }).next(), /down/);
  await timers.pass(1_000);
  await failing;
});

/** A document's stream over connections that are written by hand. */
function byHand() {
  const timers = new SteppedTimers();
  const connections = [];
  const fetch = async (_, request) => {
    const connection = { since: request.headers["Last-Event-ID"], at: timers.now(), aborted: false };
    const body = new ReadableStream({ start: (controller) => void (connection.controller = controller) });
    request.signal.addEventListener("abort", () => {
      connection.aborted = true;
      try {
        connection.controller.error(request.signal.reason);
      } catch {} // it was closed
    });
    connection.write = (text) => connection.controller.enqueue(new TextEncoder().encode(text));
    connections.push(connection);
    return new Response(body);
  };
  const client = connect({ url: "http://server", key: "k", fetch, timers, random: () => 0.5 });
  return { timers, connections, document: client.document("d") };
}

const frame = (seq) => `id: ${seq}\nevent: message.posted\ndata: {"seq":"${seq}","event_type":"message.posted"}\n\n`;

test("a stream that falls silent is opened again", async () => {
  const { timers, connections, document } = byHand();
  const stream = document.stream();
  const first = stream.next();
  await settled();
  connections[0].write(`retry: 5000\n\n${frame(1)}`);
  assert.equal((await first).value?.seq, "1");
  const second = stream.next();
  await timers.pass(30_000);
  connections[0].write(": \n\n"); // a heartbeat
  await timers.pass(44_999);
  assert.equal(connections.length, 1);
  await timers.pass(101);
  assert.equal(connections[0].aborted, true);
  assert.equal(connections.length, 2);
  assert.equal(connections[1].since, "1");
  connections[1].write(frame(1) + frame(2)); // one that was sent again is not told again
  assert.equal((await second).value?.seq, "2");
  await stream.return();
  assert.equal(connections[1].aborted, true, "the connection ends with the reader");
  assert.equal(timers.pending.size, 0);
});

test("a stream that the server fails to open is opened again; what it refuses is thrown", async () => {
  const timers = new SteppedTimers();
  const statuses = [500, 503, 429, 599, 403];
  const asked = [];
  const fetch = async () => {
    asked.push(timers.now());
    return Response.json({ error: "SOME_CODE", message: "no" }, { status: statuses[asked.length - 1] });
  };
  const stream = connect({ url: "http://server", key: "k", fetch, timers, random: () => 0.5 }).document("d").stream();
  const refused = assert.rejects(stream.next(), (err) => err instanceof Refusal && err.status === 403);
  await timers.pass(10_000);
  await refused;
  assert.deepEqual(asked, [0, 100, 300, 700, 1_500]);
});

test("a stream that leaves an event out is opened again behind the last that came", async () => {
  const { timers, connections, document } = byHand();
  const stream = document.stream({ since: 4 });
  const next = stream.next();
  await settled();
  assert.equal(connections[0].since, "4");
  connections[0].write(frame(6));
  await timers.pass(100);
  assert.equal(connections[1].since, "4");
  connections[1].write(frame(5));
  assert.equal((await next).value?.seq, "5");
  await stream.return();
});

test("where the log is shorter than what was seen, the stream begins anew", async () => {
  const timers = new SteppedTimers();
  const asked = [];
  const fetch = async (_, request) => {
    asked.push(request.headers["Last-Event-ID"]);
    if (asked.length === 1) return new Response(frame(8)); // and cut
    if (asked.length === 2) return new Response(JSON.stringify({ error: "INVALID_CURSOR", message: "", lastSeq: "2" }), { status: 400 });
    return new Response(frame(1) + frame(2));
  };
  const document = connect({ url: "http://server", key: "k", fetch, timers, random: () => 0.5 }).document("d");
  const stream = document.stream({ since: 7 });
  assert.equal((await stream.next()).value?.seq, "8");
  const first = stream.next();
  await timers.pass(1_000);
  assert.equal((await first).value?.seq, "1");
  assert.equal((await stream.next()).value?.seq, "2");
  assert.deepEqual(asked, ["7", "8", "0"]);
  await stream.return();

  const unreadable = connect({ url: "http://server", key: "k", timers, fetch: async () => new Response(JSON.stringify({ error: "INVALID_CURSOR", message: "" }), { status: 400 }) });
  await assert.rejects(unreadable.document("d").stream().next(), (err) => err instanceof Refusal && err.code === "INVALID_CURSOR");
});

test("frames are read however they are cut", async () => {
  const { connections, document } = byHand();
  const stream = document.stream();
  const next = stream.next();
  await settled();
  const bytes = new TextEncoder().encode('id: 1\r\ndata: {"seq":"1","payload":{"text":"😀"}}\r\n\r\n');
  for (const byte of bytes) connections[0].controller.enqueue(new Uint8Array([byte]));
  assert.deepEqual((await next).value?.payload, { text: "😀" });
  await stream.return();
});
