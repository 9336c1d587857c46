import { afterEach, expect, test, vi } from "vitest"
import { learnClock, serverNow } from "../src/lib/clock"
import { EventLog, keptEvents } from "../src/lib/log.svelte"
import { lastEventAt } from "../src/lib/past"
import type { DocumentRef, LogEvent } from "../src/lib/wire"

/** Events come a second apart, from the beginning of 1970 on. */
const event = (seq: number) => ({ seq: String(seq), created_at: new Date(seq * 1000).toISOString() }) as LogEvent

function serve(length: number) {
  vi.stubGlobal("fetch", async (url: string) => {
    const query = new URL(url, "http://x").searchParams
    const [since, limit] = [Number(query.get("since")), Number(query.get("limit"))]
    return Response.json({ events: Array.from({ length: Math.min(limit, length - since) }, (_, i) => event(since + 1 + i)) })
  })
}

const seqs = (log: EventLog) => log.events.map((event) => Number(event.seq))
const run = (from: number, to: number) => Array.from({ length: to - from + 1 }, (_, i) => from + i)

afterEach(() => vi.unstubAllGlobals())

test("a long log begins with its last page and grows backwards without gap or repeat", async () => {
  serve(250)
  const log = new EventLog("plan" as DocumentRef)
  expect(await log.open(250)).toBe(250)
  expect(seqs(log)).toEqual(run(151, 250))
  await log.loadEarlier()
  expect(seqs(log)).toEqual(run(51, 250))
  await log.loadEarlier()
  expect(seqs(log)).toEqual(run(1, 250))
  expect(log.hasEarlier).toBe(false)
})

test("the page keeps the last events, and those that the reader asked for", async () => {
  serve(2_000)
  const log = new EventLog("plan" as DocumentRef)
  await log.open(1_000)
  for (let seq = 1_001; seq <= 2_000; seq++) log.add(event(seq))
  expect(seqs(log)).toEqual(run(2_001 - keptEvents, 2_000))
  await log.loadEarlier()
  expect(log.events).toHaveLength(keptEvents + 100)
})

test("nothing is lost between what comes in and what is read meanwhile, however often it is asked for", async () => {
  serve(10_000)
  const log = new EventLog("plan" as DocumentRef)
  await log.open(5_000)
  let next = 5_001
  const come = (count: number) => log.add(...run(next, (next += count) - 1).map(event))
  for (let presses = 0; presses < 8; presses++) {
    come(keptEvents)
    const reading = log.loadEarlier()
    const again = log.loadEarlier()
    come(keptEvents)
    await Promise.all([reading, again])
    come(1)
    const first = Number(log.events[0]!.seq)
    expect(seqs(log)).toEqual(run(first, next - 1))
  }
})

test("what was last at a time is found in a long log by few questions", async () => {
  serve(100_000)
  const asked = vi.spyOn(globalThis, "fetch")
  for (const seq of [0, 1, 2, 777, 99_999, 100_000]) {
    asked.mockClear()
    expect(await lastEventAt("plan" as DocumentRef, 100_000, seq * 1000 + 500)).toBe(seq)
    expect(asked.mock.calls.length).toBeLessThan(20)
  }
  expect(await lastEventAt("plan" as DocumentRef, 0, Date.now())).toBe(0)
})

test("the server's time is told by its answers, whatever the reader's clock says", () => {
  for (const wrong of [-3_600_000, 0, 60_000]) {
    const there = Date.now() + wrong
    learnClock(new Response(null, { headers: { Date: new Date(there).toUTCString() } }))
    expect(Math.abs(serverNow() - there)).toBeLessThan(2_000)
    learnClock(new Response(null))
    expect(Math.abs(serverNow() - there)).toBeLessThan(2_000)
  }
})
