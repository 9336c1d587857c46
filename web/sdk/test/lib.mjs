// What the tests share: the server under test, keys of it, clients, a line that can be cut, and stepped time.

import assert from "node:assert/strict";
import net from "node:net";
import { connect } from "cowrite";
import WebSocket from "ws";

export const server = need("COWRITE_URL");
const adminKey = need("COWRITE_ADMIN_KEY");

function need(name) {
  const value = process.env[name];
  assert.ok(value, `${name} is not set: these tests are run by sdk_test.go`);
  return value;
}

/** Calls the server without the client under test, and returns the answer's JSON. */
export async function call(method, path, body, { key = adminKey, headers = {} } = {}) {
  const response = await fetch(`${server}/api/v1${path}`, {
    method,
    headers: { Authorization: `Bearer ${key}`, "Content-Type": "application/json", ...headers },
    body: body === undefined ? null : JSON.stringify(body),
  });
  const answer = await response.json();
  if (!response.ok) throw new Error(`${method} ${path}: ${response.status} ${JSON.stringify(answer)}`);
  return answer;
}

/** Makes a key: {id, key}. */
export const newKey = (agent, role = "editor") => call("POST", "/keys", { agent, role });

/** A client for the length of a test. */
export async function newClient(t, agent, options = {}) {
  const { key } = await newKey(agent);
  const client = connect({ url: server, key, WebSocket, ...options });
  t.after(() => client.close());
  return client;
}

/** Waits until a condition holds. */
export async function until(holds, what, patience = 20_000) {
  for (const end = Date.now() + patience; ; ) {
    if (await holds()) return;
    if (Date.now() > end) assert.fail(`waited ${patience} ms for ${what}`);
    await new Promise((resolve) => setTimeout(resolve, 10));
  }
}

/** A line to the server that can be cut, and that can lose answers. */
export async function newLine(t) {
  const open = new Set();
  const line = { url: "", connections: 0, loseAnswers: 0, cut: () => open.forEach((socket) => socket.destroy()) };
  const { hostname, port } = new URL(server);
  const proxy = net.createServer((near) => {
    line.connections++;
    const far = net.connect(Number(port), hostname);
    for (const [one, other] of [[near, far], [far, near]]) {
      open.add(one);
      one.on("error", () => {}); // a cut is one
      one.on("close", () => {
        open.delete(one);
        other.destroy();
      });
    }
    near.pipe(far);
    far.on("data", (bytes) => {
      if (line.loseAnswers > 0) {
        line.loseAnswers--;
        near.destroy(); // the server has done what it was asked for
      } else {
        near.write(bytes);
      }
    });
  });
  await new Promise((resolve) => proxy.listen(0, "127.0.0.1", () => resolve(undefined)));
  const address = proxy.address();
  assert.ok(address && typeof address === "object");
  line.url = `http://127.0.0.1:${address.port}`;
  t.after(() => {
    line.cut();
    proxy.close();
  });
  return line;
}

/** Time that passes when it is told to. */
export class SteppedTimers {
  time = 0;
  pending = new Set();

  now = () => this.time;

  after = (ms, call) => {
    const timer = { at: this.time + ms, call };
    this.pending.add(timer);
    return () => this.pending.delete(timer);
  };

  /** Lets so much time pass, with what was waiting for it and what follows from that. */
  async pass(ms) {
    const end = this.time + ms;
    for (;;) {
      await settled();
      const next = [...this.pending].sort((a, b) => a.at - b.at)[0];
      if (!next || next.at > end) break;
      this.pending.delete(next);
      this.time = Math.max(this.time, next.at);
      next.call();
    }
    this.time = end;
  }
}

/** Lets promises that need nothing from outside run to their end. */
export async function settled() {
  for (let i = 0; i < 10; i++) await new Promise((resolve) => setImmediate(resolve));
}

/** Chance that can be repeated: mulberry32. */
export function random(seed) {
  return () => {
    seed = (seed + 0x6d2b79f5) | 0;
    let t = Math.imul(seed ^ (seed >>> 15), 1 | seed);
    t = (t + Math.imul(t ^ (t >>> 7), 61 | t)) ^ t;
    return ((t ^ (t >>> 14)) >>> 0) / 4294967296;
  };
}

/** The seed of this run: SEED, or another each time. It is printed, so that a failure can be repeated. */
export function newSeed(t) {
  const seed = Number(process.env.SEED ?? Math.floor(Math.random() * 2 ** 31));
  t.diagnostic(`SEED=${seed}`);
  return seed;
}
