// @vitest-environment jsdom

import { afterEach, beforeEach, expect, test, vi } from "vitest"
import { EventSubscription, type LinkState } from "../src/lib/events"
import type { DocumentRef, LogEvent } from "../src/lib/wire"
import { random } from "./random"

const ref = "plan" as DocumentRef
const logged = Array.from({ length: 200 }, (_, i) => ({ seq: String(i + 1), event_type: "section.edited" }) as LogEvent)

/** Serves the log as a stream that is cut after a number of bytes; "hang" leaves it open for ever. */
function stream(since: number, bytes: number | "hang", leaveOut?: number): Response {
  const text = logged
    .filter((event) => Number(event.seq) > since && Number(event.seq) !== leaveOut)
    .map((event) => `id: ${event.seq}\ndata: ${JSON.stringify(event)}\n\n`)
    .join("")
  const encoded = new TextEncoder().encode(text)
  return new Response(
    new ReadableStream({
      start(controller) {
        if (bytes === "hang") return controller.enqueue(encoded)
        controller.enqueue(encoded.slice(0, bytes))
        controller.close()
      },
    }),
  )
}

function follow(answer: (since: number, call: number) => Response | Promise<Response>) {
  let calls = 0
  vi.stubGlobal("fetch", async (url: string, { signal }: { signal: AbortSignal }) => {
    const response = await answer(Number(new URL(url, "http://x").searchParams.get("since")), calls++)
    // As the browser does, an abort ends the body with an error.
    const pipe = new TransformStream<Uint8Array, Uint8Array>()
    void response.body?.pipeTo(pipe.writable, { signal }).catch(() => {})
    return new Response(pipe.readable, { status: response.status })
  })
  const seen: number[] = []
  const links: LinkState[] = []
  const reasons = new Set<string>()
  const refused: number[] = []
  let silences = 0
  const subscription = new EventSubscription(ref, 0, {
    event: (event) => seen.push(Number(event.seq)),
    link: (state, why) => {
      links.push(state)
      if (why) reasons.add(why)
    },
    anew: async (lastSeq) => {
      seen.length = 0
      return lastSeq - 2
    },
    silent: () => silences++,
    refused: (status) => refused.push(status),
  })
  return { seen, links, reasons, refused, subscription, calls: () => calls, silences: () => silences }
}

const all = logged.map((event) => Number(event.seq))

beforeEach(() => void vi.useFakeTimers())
afterEach(() => {
  vi.useRealTimers()
  vi.unstubAllGlobals()
})

test("however often the stream is cut, each event comes once and in order", async () => {
  const seed = Date.now() % 1_000_000
  const pick = random(seed)
  const { seen, subscription } = follow((since) => stream(since, 1 + pick(900)))
  for (let i = 0; i < 400 && seen.length < all.length; i++) await vi.advanceTimersByTimeAsync(5_000)
  subscription.close()
  expect(seen, `seed ${seed}`).toEqual(all)
})

test("what is sent again is not shown again", async () => {
  const { seen, subscription } = follow((_, call) => stream(0, call < 2 ? 500 : "hang"))
  await vi.advanceTimersByTimeAsync(20_000)
  subscription.close()
  expect(seen).toEqual(all)
})

test("an event that is missing in between is asked for again", async () => {
  const { seen, subscription } = follow((since, call) => stream(since, "hang", call === 0 ? 7 : undefined))
  await vi.advanceTimersByTimeAsync(10_000)
  subscription.close()
  expect(seen).toEqual(all)
})

test("the link is called down while nobody answers, and open again afterwards", async () => {
  const { links, subscription } = follow((since, call) => (call === 1 ? Promise.reject(new TypeError("refused")) : stream(since, call === 0 ? 50 : "hang")))
  await vi.advanceTimersByTimeAsync(20_000)
  subscription.close()
  expect(links).toEqual(["open", "down", "down", "open"])
})

test("a stream that has gone silent is given up and opened again", async () => {
  const { links, silences, calls, subscription } = follow(() => stream(200, "hang"))
  await vi.advanceTimersByTimeAsync(34_000)
  expect(silences()).toBe(0)
  await vi.advanceTimersByTimeAsync(3_000)
  subscription.close()
  expect([silences(), calls(), links]).toEqual([1, 2, ["open", "down", "open"]])
})

test("where the log is shorter than what was seen, it is read anew", async () => {
  const asked: number[] = []
  const { seen, refused, subscription } = follow((since, call) => {
    asked.push(since)
    if (call === 1) return new Response(`{"error":"INVALID_CURSOR","message":"","lastSeq":"50"}`, { status: 400 })
    return stream(since, call === 0 ? 900 : "hang")
  })
  await vi.advanceTimersByTimeAsync(10_000)
  subscription.close()
  expect(asked).toHaveLength(3)
  expect(asked[2]).toBe(48)
  expect(seen).toEqual(all.slice(48))
  expect(refused).toEqual([])
})

test.each([400, 401, 403, 404, 410])("a refusal with %i ends it", async (status) => {
  const { refused, subscription, calls } = follow(() => new Response("{}", { status }))
  await vi.advanceTimersByTimeAsync(60_000)
  subscription.close()
  expect(refused).toEqual([status])
  expect(calls()).toBe(1)
})

test.each([429, 500, 503])("an answer with %i is tried again", async (status) => {
  const { seen, subscription } = follow((since, call) => (call === 0 ? new Response("", { status }) : stream(since, "hang")))
  await vi.advanceTimersByTimeAsync(5_000)
  subscription.close()
  expect(seen).toEqual(all)
})

test("an operator's block is told in the server's words, and the log goes on when it is lifted", async () => {
  const refusal = { error: "DOCUMENT_BLOCKED", message: "an operator has blocked this document", reason: "it grows" }
  const run = follow((since, call) => (call < 3 ? Response.json(refusal, { status: 423 }) : stream(since, "hang")))
  await vi.advanceTimersByTimeAsync(30_000)
  expect([...run.reasons]).toEqual(["an operator has blocked this document: it grows"])
  expect(run.links).toEqual(["down", "down", "down", "open"])
  expect(run.seen).toEqual(all)
  expect(run.refused).toEqual([])
  run.subscription.close()
})
