// What the tests share: the server under test, keys of it, and stock clients.

import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { once } from "node:events";
import { createInterface } from "node:readline";
import { Repo } from "@automerge/automerge-repo";
import { WebSocketClientAdapter } from "@automerge/automerge-repo-network-websocket";

export const server = need("COWRITE_URL");
export const adminKey = need("COWRITE_ADMIN_KEY");
export const binary = need("COWRITE_BIN");

function need(name) {
  assert.ok(process.env[name], `${name} is not set: these tests are run by e2e_test.go`);
  return process.env[name];
}

/** Calls the server and returns the answer's JSON; an answer of 400 and above is an error. */
export async function call(method, path, body, { key = adminKey, at = server } = {}) {
  const response = await fetch(`${at}/api/v1${path}`, {
    method,
    headers: { Authorization: `Bearer ${key}`, "Content-Type": "application/json" },
    body: body === undefined ? undefined : JSON.stringify(body),
  });
  const answer = await response.json();
  if (!response.ok) throw Object.assign(new Error(`${method} ${path}: ${response.status} ${JSON.stringify(answer)}`), { answer });
  return answer;
}

/** Makes a key: {id, key, ...}. */
export const newKey = (agent, role = "editor", at = server) => call("POST", "/keys", { agent, role }, { at });

/** The first section's text of a document, as REST reads it. */
export async function restText(ref, at = server) {
  const document = await call("GET", `/documents/${ref}`, undefined, { at });
  return document.sections[0]?.text;
}

/** Connects a stock client for the length of a test. */
export function connect(t, key, { peerId, at = server } = {}) {
  const adapter = new WebSocketClientAdapter(`${at.replace("http", "ws")}/api/v1/sync?token=${key}`);
  const repo = new Repo({ network: [adapter], peerId });
  t.after(() => repo.shutdown());
  return Object.assign(repo, { adapter });
}

/** The code with which the server closes a client's present socket. */
export async function closeCode(repo) {
  await until(() => repo.adapter.socket, "the client to connect");
  let code;
  repo.adapter.socket.addEventListener("close", (event) => (code = event.code));
  await until(() => code !== undefined, "the socket to be closed");
  return code;
}

/** A new document's content, by the server's schema, with one section. */
export const oneSection = (body) => ({ schema: 1, title: "Made by a replica", sections: { s: { body, position: "V" } } });

/** Waits until a condition holds. */
export async function until(holds, what, patience = 10_000) {
  for (const end = Date.now() + patience; ; ) {
    if (await holds()) return;
    if (Date.now() > end) assert.fail(`waited ${patience} ms for ${what}`);
    await sleep(20);
  }
}

export const sleep = (ms) => new Promise((resolve) => setTimeout(resolve, ms));

/** Starts a server of a test's own; stop ends it with a signal and waits for its end. */
export async function startServer(data, port = 0) {
  const child = spawn(binary, ["serve", "--addr", `127.0.0.1:${port}`, "--data", data], {
    env: { ...process.env, COWRITE_ADMIN_KEY: adminKey },
    stdio: ["ignore", "ignore", "pipe"],
  });
  const exited = once(child, "exit");
  const lines = createInterface({ input: child.stderr });
  const [first] = await once(lines, "line");
  const address = /\baddr=(\S+)/.exec(first)?.[1];
  assert.ok(address, `no address in: ${first}`);
  return {
    url: `http://${address}`,
    port: Number(address.split(":").at(-1)),
    async stop(signal = "SIGTERM") {
      child.kill(signal);
      const [code] = await exited;
      return code;
    },
  };
}
