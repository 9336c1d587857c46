// How the memory of a page grows that stays open while agents work on its document: one page of somebody who reads along
// and follows an agent, one of somebody who has a section open in the editor, with the worker that keeps its replica.
// The texts stay as long as they are, but a replica holds its document's history too: beside it stands how much that is.

import { setTimeout as sleep } from "node:timers/promises"

const agents = 6
/** How long each agent rests between two acts, in milliseconds. */
const restMs = 6_000
/** More than the page keeps of a log, so that growth is told from filling up. */
const logged = 600

/** Prints what there is in memory after each minute, and in the end by how much it grew since the first. */
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
  const [ofReader, ofWriter] = await Promise.all([reader, writer].map(openDevtools))
  for (const page of [reader, writer]) {
    await page.goto(`${url}/d/${document.slug}`)
    await page.locator(".link.open").waitFor({ timeout: 60_000 })
  }
  await writer.locator(`#s-${document.sections[3].id}`).getByRole("button", { name: "Write in" }).press("Enter")
  await writer.getByRole("textbox", { name: "Text of" }).waitFor()
  for (let i = 0; i < logged; i++) await call("POST", `${path}/events`, { text: `message ${i}` })

  const working = Promise.all([...keys.map((_, i) => work(i)), passBy(), type(writer, ending.signal)])
  await reader.getByRole("button", { name: "Follow agent-0" }).click()
  const content = new Meter("the document", async () => {
    const { sections, removed } = await call("GET", path)
    const [{ changes, bytes }] = (await call("GET", "/usage?limit=1")).documents
    const characters = [...sections, ...removed].reduce((sum, { text, position }) => sum + text.length + position.length, 0)
    return { "characters of texts and positions": characters, changes, "KiB of changes in the store": bytes / 2 ** 10 }
  })
  const meters = [...metersOf(reader, "reading along", ofReader), ...metersOf(writer, "writing", ofWriter), content]
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

/** Has a worker that has not begun keep the memory of its WebAssembly as a global: its module keeps it to itself. */
const exposing = `{
  const instantiate = WebAssembly.instantiateStreaming
  WebAssembly.instantiateStreaming = async (...given) => {
    const instantiated = await instantiate(...given)
    globalThis.memory = instantiated.instance.exports.memory
    return instantiated
  }
}`

/** Those of a page and of its workers, which began after the devtools were opened. */
function metersOf(page, name, { devtools, workers }) {
  if (workers.length !== page.workers().length) throw new Error(`${name}: reached ${workers.length} of ${page.workers().length} workers`)
  return [new Meter(name, () => readPage(devtools)), ...workers.map((worker) => new Meter(`${name}, its worker`, () => worker.read()))]
}

async function openDevtools(page) {
  const devtools = await page.context().newCDPSession(page)
  await devtools.send("HeapProfiler.enable")
  await devtools.send("Performance.enable")
  return { devtools, workers: await Worker.watch(devtools) }
}

async function readPage(devtools) {
  await collectGarbage((method) => devtools.send(method))
  const { metrics } = await devtools.send("Performance.getMetrics")
  const of = (name) => metrics.find((metric) => metric.name === name).value
  return { "MiB of heap": of("JSHeapUsedSize") / 2 ** 20, nodes: of("Nodes"), listeners: of("JSEventListeners") }
}

async function collectGarbage(send) {
  // What is finalised by one collection is free with the next.
  for (let i = 0; i < 3; i++) await send("HeapProfiler.collectGarbage")
}

/** A worker, spoken to by way of its page: Playwright evaluates in one, but opens no session with it. */
class Worker {
  #asked = 0
  #answers = new Map()

  constructor(devtools, sessionId) {
    this.devtools = devtools
    this.sessionId = sessionId
    devtools.on("Target.receivedMessageFromTarget", ({ sessionId, message }) => {
      if (sessionId === this.sessionId) this.#take(JSON.parse(message))
    })
  }

  /** A list of the page's workers, to which those come that begin from now on. */
  static async watch(devtools) {
    const workers = []
    devtools.on("Target.attachedToTarget", async ({ sessionId, targetInfo }) => {
      if (targetInfo.type !== "worker") return
      const worker = new Worker(devtools, sessionId)
      workers.push(worker)
      await Promise.all([worker.send("Runtime.evaluate", { expression: exposing }), worker.send("HeapProfiler.enable"), worker.send("Runtime.runIfWaitingForDebugger")])
    })
    // Flattened sessions are Playwright's own.
    await devtools.send("Target.setAutoAttach", { autoAttach: true, waitForDebuggerOnStart: true, flatten: false })
    return workers
  }

  async send(method, params = {}) {
    const id = ++this.#asked
    const answered = new Promise((resolve) => this.#answers.set(id, resolve))
    await this.devtools.send("Target.sendMessageToTarget", { sessionId: this.sessionId, message: JSON.stringify({ id, method, params }) })
    const { result, error } = await answered
    if (error) throw new Error(`${method} in a worker: ${error.message}`)
    return result
  }

  #take({ id, ...answer }) {
    this.#answers.get(id)?.(answer) // events have no id
    this.#answers.delete(id)
  }

  /** Buffers are what stands outside of the heap, but for WebAssembly's memory, which never shrinks: its size is the most that was in use. */
  async read() {
    await collectGarbage((method) => this.send(method))
    const { usedSize, backingStorageSize } = await this.send("Runtime.getHeapUsage")
    const { result: memory, exceptionDetails } = await this.send("Runtime.evaluate", { expression: "memory.buffer.byteLength" })
    if (exceptionDetails) throw new Error(`read the size of a worker's WebAssembly: ${memory.description}`)
    return { "MiB of heap": usedSize / 2 ** 20, "MiB of buffers": backingStorageSize / 2 ** 20, "MiB of WebAssembly": memory.value / 2 ** 20 }
  }
}

/** Keeps the readings of one thing, each of them numbers by what they count. */
class Meter {
  #readings = []

  constructor(name, measure) {
    this.name = name
    this.measure = measure
  }

  async read() {
    const reading = await this.measure()
    this.#readings.push(reading)
    return `${this.name}: ${told(reading)}`
  }

  growth() {
    const [first, last] = [this.#readings[0], this.#readings.at(-1)]
    const percent = (what) => `${what} ${((last[what] / first[what] - 1) * 100).toFixed(1)} %`
    return `${this.name}, from ${told(first)} after a minute to ${told(last)} after ${this.#readings.length}: ${Object.keys(first).map(percent).join(", ")}`
  }
}

function told(reading) {
  return Object.entries(reading)
    .map(([what, count]) => `${Number.isInteger(count) ? count : count.toFixed(2)} ${what}`)
    .join(", ")
}
