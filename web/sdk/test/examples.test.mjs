import assert from "node:assert/strict";
import { execFile } from "node:child_process";
import test from "node:test";
import { readFile, writeFile } from "node:fs/promises";
import { promisify } from "node:util";
import { call, newKey, server } from "./lib.mjs";

const [alpha, beta] = [await newKey("alpha"), await newKey("beta")];

/** Runs a program in a process of its own, as a reader would, and gives what it prints. */
async function run(script, args = []) {
  const env = { ...process.env, COWRITE_URL: server, COWRITE_KEY: alpha.key, ALPHA_KEY: alpha.key, BETA_KEY: beta.key };
  const { stdout } = await promisify(execFile)(process.execPath, [...args, script], { env, timeout: 60_000 });
  return stdout;
}

const example = (name) => run(`examples/${name}.mjs`);

test("two agents write one report by turns", async () => {
  const text = await example("turns");
  const paragraphs = [...text.matchAll(/(alpha|beta) 🖋 paragraph (\d), after (\d) others/gu)].map(([, name, turn, others]) => ({ name, turn, others }));
  assert.equal(paragraphs.length, 6, text);
  assert.deepEqual(paragraphs.map((p) => p.others), ["0", "1", "2", "3", "4", "5"], "nobody wrote before having read the others");
  paragraphs.slice(1).forEach(({ name }, i) => assert.notEqual(name, paragraphs[i]?.name, "they take turns"));
  const { documents } = await call("GET", "/documents?limit=1");
  const { events } = await call("GET", `/documents/${documents[0].slug}/events?limit=1000`);
  const types = events.map((event) => event.event_type);
  assert.equal(types.filter((type) => type === "section.leased").length, 6);
  assert.ok(!types.includes("section.lease_overridden") && !types.includes("section.overlap"), types.join());
});

test("a reviewer answers in the event stream", async () => {
  assert.equal(await example("reviewer"), "beta: something is left to do\nbeta: looks good\n");
});

test("an agent writes anyway and reads the overlap from the log", async () => {
  const lines = (await example("anyway")).trimEnd().split("\n");
  assert.equal(lines[0], "alpha holds it: moving the meeting");
  assert.equal(lines[1], "beta is told: alpha is editing this section right now; your write was merged; merged from alpha");
  assert.equal(lines[2], 'look at "Monday": Friday and Tuesday');
  assert.equal(lines.length, 3);
});

test("the README's first success is one", async () => {
  const readme = await readFile("README.md", "utf8");
  const [, code] = /```js\n(.*?)```/s.exec(readme) ?? [];
  const [, printed] = /```markdown\n(.*?)```/s.exec(readme) ?? [];
  assert.ok(code?.includes("http://127.0.0.1:8080") && printed);
  await writeFile("dist/readme.mjs", code.replace("http://127.0.0.1:8080", server)); // where the package's name leads to it
  assert.equal(await run("dist/readme.mjs"), `${printed}\n`);
});

// The code of the source's page with only the import changed. Its address and key are not of this server: redirect.mjs
// stands for the network and says who is who.
test("the source's example runs", async () => {
  await call("POST", "/documents", { slug: "my-doc", markdown: "# Introduction\n" });
  const source = () => run("test/source-example.mjs", ["--import", "./test/redirect.mjs"]);
  assert.equal(await source(), "");
  const { events } = await call("GET", "/documents/my-doc/events");
  assert.deepEqual(events.map((event) => event.payload.event ?? event.event_type), ["document.created", "SECTION_LEASED", "SECTION_LEASE_RELEASED"]);
  assert.equal(events[1].payload.reason, "Rewriting introduction");

  const held = await call("POST", "/documents/my-doc/sections/intro/lease", { leaseDurationSeconds: 60 }, { key: beta.key });
  assert.equal(await source(), `Section held by beta until ${held.expiresAt}\n`);
});
