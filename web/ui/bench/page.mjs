// Measures the page in Chromium, against a server of its own on this machine:
//
//   node bench/page.mjs [--only opening|writing|edits|heap] [--binary ../../bin/cowrite] [--minutes 2] [--writers 20] [--rate 2] [--heap 2m]
//
// opening: how long a document of 1 MB takes to its first text, and how smoothly it scrolls. writing: how long it takes
// from the click into a section to the caret there, and what keeps the page from answering meanwhile. edits: how long an agent's
// edit takes to the screen of somebody who reads along. heap: how the memory of a page grows that is left open under load
// (60m is the hour that it should stand).

import { spawn } from "node:child_process"
import { randomBytes } from "node:crypto"
import { mkdtempSync, rmSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { createInterface } from "node:readline"
import { setTimeout as sleep } from "node:timers/promises"
import { parseArgs } from "node:util"
import { chromium } from "playwright-core"
import { measureHeap } from "./heap.mjs"
import { createLong, watch } from "./long.mjs"
import { measureWriting } from "./writing.mjs"

const { values: given } = parseArgs({
  options: {
    binary: { type: "string", default: join(import.meta.dirname, "../../../bin/cowrite") },
    minutes: { type: "string", default: "2" },
    writers: { type: "string", default: "20" },
    rate: { type: "string", default: "2" },
    heap: { type: "string", default: "2m" },
    only: { type: "string" },
  },
})
const minutes = Number(given.minutes)
const writers = Number(given.writers)
/** Edits a second of each writer. */
const rate = Number(given.rate)
const measures = {
  opening: measureOpening,
  writing: () => measureWriting({ call, signedIn, url }),
  edits: measureEdits,
  heap: () => measureHeap({ call, signedIn, url, minutes: minutesOf(given.heap) }),
}
if (given.only && !Object.hasOwn(measures, given.only)) throw new Error(`--only ${given.only}: there are ${Object.keys(measures).join(", ")}`)

const data = mkdtempSync(join(tmpdir(), "cowrite-page-"))
const adminKey = `cw_${randomBytes(32).toString("base64url")}`
const server = spawn(given.binary, ["serve", "--addr", "127.0.0.1:0", "--data", data], {
  env: { ...process.env, COWRITE_ADMIN_KEY: adminKey },
  stdio: ["ignore", "ignore", "pipe"],
})
const url = await new Promise((resolve, reject) => {
  server.on("exit", () => reject(new Error("the server ended before it served")))
  createInterface(server.stderr).on("line", (line) => {
    const address = /\baddr=(\S+)/.exec(line)?.[1]
    if (address) resolve(`http://${address}`)
  })
})
const browser = await chromium.launch({
  executablePath: process.env.CHROMIUM ?? "/usr/bin/chromium",
  args: ["--headless", "--no-sandbox", "--disable-gpu", "--no-first-run", "--disable-background-networking", "--disable-component-update"],
})
try {
  for (const [name, measure] of Object.entries(measures)) if (!given.only || given.only === name) await measure()
} finally {
  await browser.close()
  server.removeAllListeners("exit")
  server.kill("SIGTERM")
  await new Promise((resolve) => server.on("exit", resolve))
  rmSync(data, { recursive: true })
}

async function call(method, path, body, key = adminKey) {
  const response = await fetch(`${url}/api/v1${path}`, {
    method,
    headers: { Authorization: `Bearer ${key}`, "Content-Type": "application/json" },
    ...(body === undefined ? {} : { body: JSON.stringify(body) }),
  })
  if (!response.ok) throw new Error(`${method} ${path}: ${response.status} ${await response.text()}`)
  return response.json()
}

/** A page of its own, with nothing cached, in which somebody is signed in. */
async function signedIn(agent, role, options) {
  const { key } = await call("POST", "/keys", { agent, role })
  const context = await browser.newContext({ locale: "en-GB", ...options })
  const answer = await context.request.post(`${url}/api/v1/session`, { data: { key } })
  if (!answer.ok()) throw new Error(`sign in: ${answer.status()}`)
  return context.newPage()
}

/** "90s", "60m" or "1h" in minutes. */
function minutesOf(duration) {
  const [, count, unit] = /^(\d+(?:\.\d+)?)([smh])$/.exec(duration) ?? []
  if (!unit) throw new Error(`--heap ${duration}: give a time such as 90s, 60m or 1h`)
  return Number(count) * { s: 1 / 60, m: 1, h: 60 }[unit]
}

async function measureOpening() {
  const { slug, bytes } = await createLong(call)
  const firstTexts = []
  let page
  for (let i = 0; i < 5; i++) {
    await page?.context().close()
    page = await signedIn("reader", "viewer", { viewport: { width: 1360, height: 900 } })
    await page.addInitScript(watch)
    await page.goto(`${url}/d/${slug}`, { waitUntil: "commit" })
    firstTexts.push(await (await page.waitForFunction(() => globalThis.firstText, null, { polling: 20 })).jsonValue())
  }
  console.log(`opening a document of ${(bytes / 2 ** 20).toFixed(2)} MB, 500 sections, cold, to its first text: ${firstTexts.map((ms) => ms.toFixed(0)).join(", ")} ms`)
  const script = await page.evaluate(() =>
    performance
      .getEntriesByType("resource")
      .filter(({ name, responseEnd }) => name.endsWith(".js") && responseEnd <= globalThis.firstText)
      .reduce((sum, { encodedBodySize }) => sum + encodedBodySize, 0),
  )
  console.log(`script before the first text: ${(script / 1024).toFixed(0)} KB compressed`)
  await page.locator(".link.open").waitFor({ timeout: 120_000 })
  await page.waitForFunction(() => document.querySelectorAll("article .prose:not(:empty)").length === 500, null, { timeout: 120_000 })
  const opening = await page.evaluate(() => globalThis.longTasks.splice(0).map(([, duration]) => duration))
  console.log(`while it opened: ${opening.length} tasks over 50 ms, the longest ${Math.max(0, ...opening).toFixed(0)} ms`)

  const frames = await page.evaluate(
    () =>
      new Promise((resolve) => {
        const step = 240
        const deltas = []
        let last = performance.now()
        const frame = (now) => {
          deltas.push(now - last)
          last = now
          scrollBy({ top: step, behavior: "instant" })
          if (deltas.length < 400) requestAnimationFrame(frame)
          else resolve(deltas)
        }
        requestAnimationFrame(frame)
      }),
  )
  const scrolling = await page.evaluate(() => globalThis.longTasks.map(([, duration]) => duration))
  console.log(`scrolling ${frames.length} frames of 240 px: ${percentiles(frames)} a frame; ${scrolling.length} tasks over 50 ms, the longest ${Math.max(0, ...scrolling).toFixed(0)} ms`)
  await page.context().close()
}

async function measureEdits() {
  const markdown = Array.from({ length: writers }, (_, i) => `## Part ${i}\n\nWritten: e0e.\n\n`).join("")
  const document = await call("POST", "/documents", { title: "Busy", markdown })
  const keys = await Promise.all(document.sections.map((_, i) => call("POST", "/keys", { agent: `writer-${i}`, role: "editor" })))
  // Tall enough for all that is written to be in sight: what is out of sight is not painted.
  const page = await signedIn("reader", "viewer", { viewport: { width: 1360, height: 110 * writers } })
  await page.goto(`${url}/d/${document.slug}`)
  await page.locator(".link.open").waitFor({ timeout: 60_000 })
  await page.evaluate(() => {
    globalThis.shown = []
    new MutationObserver((records) => {
      const found = new Set()
      for (const { target } of records) for (const [, n] of target.textContent.matchAll(/\be(\d+)e\b/g)) found.add(Number(n))
      // The frame that paints it ends before the next task.
      requestAnimationFrame(() => setTimeout(() => globalThis.shown.push([performance.timeOrigin + performance.now(), [...found]])))
    }).observe(document.querySelector("article"), { subtree: true, childList: true, characterData: true })
  })

  const sent = new Map()
  const latencies = []
  const answers = []
  let serial = 0
  let ending = false
  const write = async (i) => {
    let before = 0
    await sleep((1000 / rate) * Math.random())
    while (!ending) {
      const began = performance.now()
      const n = ++serial
      sent.set(n, performance.timeOrigin + began)
      await call("PATCH", `/documents/${document.slug}/sections/${document.sections[i].id}`, { replace: [{ find: `e${before}e`, with: `e${n}e` }] }, keys[i].key)
      answers.push(performance.now() - began)
      before = n
      await sleep(Math.max(0, 1000 / rate - (performance.now() - began)))
    }
  }
  const writing = Promise.all(keys.map((_, i) => write(i)))
  const end = performance.now() + minutes * 60_000
  while (performance.now() < end) {
    await sleep(Math.min(10_000, minutes * 15_000))
    for (const [at, numbers] of await page.evaluate(() => globalThis.shown.splice(0))) {
      for (const n of numbers) {
        if (!sent.has(n)) continue
        latencies.push(at - sent.get(n))
        sent.delete(n)
      }
    }
  }
  ending = true
  await writing
  console.log(`${serial} edits by ${writers} writers, each ${rate} a second, for ${minutes} min; ${latencies.length} seen before the next one replaced them`)
  console.log(`from an agent's edit to changed pixels: ${percentiles(latencies)}`)
  console.log(`from an agent's edit to its answer, which the page does not take part in: ${percentiles(answers)}`)
}

function percentiles(values) {
  const sorted = [...values].sort((a, b) => a - b)
  const at = (part) => sorted[Math.min(sorted.length - 1, Math.floor(part * sorted.length))].toFixed(0)
  return `p50 ${at(0.5)} ms, p95 ${at(0.95)} ms, p99 ${at(0.99)} ms, worst ${at(1)} ms`
}
