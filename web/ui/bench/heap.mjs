// How the heap of a page grows that stays open while agents work on its document: one page of somebody who reads along
// and follows an agent, one of somebody who has a section open in the editor.

import { setTimeout as sleep } from "node:timers/promises"

const agents = 6
/** How long each agent rests between two acts, in milliseconds. */
const restMs = 6_000
/** More than the page keeps of a log, so that growth is told from filling up. */
const logged = 600

/** Prints both heaps after each minute, and in the end by how much they grew since the first. */
export async function measureHeap({ call, signedIn, url, minutes }) {
  const markdown = Array.from({ length: 40 }, (_, i) => `## Part ${i}\n\nWritten: e0e.\n\n${"Some more words, which nobody changes.\n\n".repeat(8)}`).join("")
  const document = await call("POST", "/documents", { title: "Left open", markdown })
  const path = `/documents/${document.slug}`
  const keys = await Promise.all(Array.from({ length: agents }, (_, i) => call("POST", "/keys", { agent: `agent-${i}`, role: "editor" })))
  const ending = new AbortController()
  /** Refused may be what is part of the play: a lease that somebody else holds, or that has ended meanwhile. */
  const act = (key, method, where, body) =>
    call(method, path + where, body, key).catch((error) => {
      if (!/SECTION_LEASED|DEADLOCK|NO_ACTIVE_LEASE|NOT_HOLDER|LEASE_ENDED/.test(error.message)) throw error
    })

  let acts = 0
  /** Writes in a section of its own, leases it, and every few rounds takes it out, brings it back and moves it. */
  async function work(i) {
    const { key } = keys[i]
    const section = `/sections/${document.sections[i * 2].id}`
    const after = document.sections[i * 2 + 1].id
    let written = 0
    const edit = () => act(key, "PATCH", section, { replace: [{ find: `e${written}e`, with: `e${++written}e` }] })
    const rounds = [
      () => act(key, "POST", `${section}/lease`, { leaseDurationSeconds: 10, reason: `round ${acts}` }),
      edit,
      edit,
      () => act(keys[(i + 1) % agents].key, "POST", `${section}/lease`, { leaseDurationSeconds: 10, queue: true, placeSeconds: 5 }),
      edit,
      () => act(key, "DELETE", `${section}/lease`),
      edit,
      () => act(key, "DELETE", section),
      () => act(key, "POST", `${section}/restore`),
      () => act(key, "POST", `${section}/move`, { after }),
      edit,
      () => act(key, "POST", "/events", { text: `what was done by act ${acts}` }),
    ]
    await sleep(restMs * Math.random())
    for (let round = 0; !ending.signal.aborted; round++) {
      await rounds[round % rounds.length]()
      acts++
      await sleep(restMs, undefined, { signal: ending.signal }).catch(() => undefined)
    }
  }

  /** Somebody whom the page has not seen before writes once a minute. */
  async function passBy() {
    for (let i = 0; !ending.signal.aborted; i++) {
      const { key } = await call("POST", "/keys", { agent: `passer-by-${i}`, role: "editor" })
      await act(key, "PATCH", `/sections/${document.sections[30].id}`, { replace: [{ find: `e${i}e`, with: `e${i + 1}e` }] })
      await sleep(60_000, undefined, { signal: ending.signal }).catch(() => undefined)
    }
  }

  // Fading tints would keep the processor at painting, which leaves nothing on the heap.
  const quiet = { viewport: { width: 1360, height: 900 }, reducedMotion: "reduce" }
  const reader = await signedIn("reader", "viewer", quiet)
  const writer = await signedIn("ann", "editor", quiet)
  for (const page of [reader, writer]) {
    await page.goto(`${url}/d/${document.slug}`)
    await page.locator(".link.open").waitFor({ timeout: 60_000 })
  }
  await writer.locator(`#s-${document.sections[3].id}`).getByRole("button", { name: "Write in" }).press("Enter")
  await writer.getByRole("textbox", { name: "Text of" }).waitFor()
  for (let i = 0; i < logged; i++) await call("POST", `${path}/events`, { text: `message ${i}` })

  const working = Promise.all([...keys.map((_, i) => work(i)), passBy(), type(writer, ending.signal)])
  await reader.getByRole("button", { name: "Follow agent-0" }).click()
  const meters = [await Meter.of(reader, "reading along"), await Meter.of(writer, "writing")]
  const began = performance.now()
  for (let minute = 1; minute <= Math.max(2, minutes); minute++) {
    await Promise.race([sleep(began + minute * 60_000 - performance.now()), working]) // work ends early only by failing
    for (const meter of meters) console.log(`minute ${minute}, ${acts} acts, ${await meter.read()}`)
  }
  ending.abort()
  await working
  for (const meter of meters) console.log(meter.growth())
  for (const page of [reader, writer]) await page.context().close()
}

/** Types a letter and takes it back, every few seconds. */
async function type(page, signal) {
  for (let i = 0; !signal.aborted; i++) {
    await page.keyboard.press(i % 2 ? "Backspace" : "x")
    await sleep(5_000, undefined, { signal }).catch(() => undefined)
  }
}

/** Reads what a page holds once its garbage is collected. */
class Meter {
  #readings = []

  constructor(name, devtools) {
    this.name = name
    this.devtools = devtools
  }

  static async of(page, name) {
    const devtools = await page.context().newCDPSession(page)
    await devtools.send("HeapProfiler.enable")
    await devtools.send("Performance.enable")
    return new Meter(name, devtools)
  }

  async read() {
    // What is finalised by one collection is free with the next.
    for (let i = 0; i < 3; i++) await this.devtools.send("HeapProfiler.collectGarbage")
    const { metrics } = await this.devtools.send("Performance.getMetrics")
    const of = (name) => metrics.find((metric) => metric.name === name).value
    const reading = { heap: of("JSHeapUsedSize"), nodes: of("Nodes"), listeners: of("JSEventListeners") }
    this.#readings.push(reading)
    return `${this.name}: ${told(reading)}`
  }

  growth() {
    const [first, last] = [this.#readings[0], this.#readings.at(-1)]
    const percent = (what) => `${((last[what] / first[what] - 1) * 100).toFixed(1)} %`
    return `${this.name}, from ${told(first)} after a minute to ${told(last)} after ${this.#readings.length}: heap ${percent("heap")}, nodes ${percent("nodes")}, listeners ${percent("listeners")}`
  }
}

function told({ heap, nodes, listeners }) {
  return `${(heap / 2 ** 20).toFixed(2)} MiB, ${nodes} nodes, ${listeners} listeners`
}
