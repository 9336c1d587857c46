import { afterEach, expect, test, vi } from "vitest"
import { EventLog, keptEvents } from "../src/lib/log.svelte"
import type { DocumentRef, LogEvent } from "../src/lib/wire"

const event = (seq: number) => ({ seq: String(seq) }) as LogEvent

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
