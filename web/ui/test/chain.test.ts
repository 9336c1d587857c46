import { createHash } from "node:crypto"
import { expect, test } from "vitest"
import { verifyChain } from "../src/lib/chain"

interface Sealed {
  seq: string
  id: string
  event_type: string
  actor_id: string
  payload: string
  created_at: string
  hash: string
}

/** A log as a server writes it; payloads are spelled as given. */
function seal(payloads: string[]): Sealed[] {
  let previous = Buffer.alloc(32)
  return payloads.map((payload, i) => {
    const event = { seq: String(i + 1), id: `id-${i}`, event_type: "message.posted", actor_id: "ann", payload, created_at: `2026-01-02T03:04:05.00${i % 10}Z` }
    const hash = createHash("sha256")
    for (const field of [previous, ...[event.seq, event.id, event.event_type, event.actor_id, event.created_at, payload].map((text) => Buffer.from(text))]) {
      const length = Buffer.alloc(8)
      length.writeBigUInt64BE(BigInt(field.length))
      hash.update(length).update(field)
    }
    previous = hash.digest()
    return { ...event, hash: previous.toString("hex") }
  })
}

const reader = (log: Sealed[], size: number) => async (since: number) => {
  const page = log.slice(since, since + size)
  const events = page.map(({ payload, ...rest }) => `${JSON.stringify(rest).slice(0, -1)},"payload":${payload}}`)
  return `{"events":[${events.join(",")}],"has_more":${since + size < log.length},"next_since":"${since + page.length}"}`
}

const payloads = ["{}", String.raw`{"text":"\u003cb\u003e é 👩‍👧","n":1.50e3,"deep":{"a":[1,{"x":"]}"}]}}`, '{"text":"two"}', '{"text":"three"}', '{"n":12345678901234567890}']
const silent = () => {}

test.each([1, 2, 1000])("a log is verified in pages of %i, however its payloads are spelled", async (size) => {
  const told: number[] = []
  expect(await verifyChain(reader(seal(payloads), size), (events) => told.push(events))).toEqual({ intact: true, events: 5 })
  expect(told.at(-1)).toBe(5)
})

test("an empty log is intact", async () => {
  expect(await verifyChain(reader([], 10), silent)).toEqual({ intact: true, events: 0 })
})

test.each<[string, (log: Sealed[]) => Sealed[], number]>([
  ["a changed payload", (log) => log.with(2, { ...log[2]!, payload: '{"text":"Two"}' }), 2],
  ["another actor", (log) => log.with(1, { ...log[1]!, actor_id: "bob" }), 1],
  ["another time", (log) => log.with(3, { ...log[3]!, created_at: "2027-01-02T03:04:05.000Z" }), 3],
  ["a changed event with a hash of its own", (log) => log.with(1, { ...log[1]!, payload: "{}", hash: seal(["{}", "{}"])[1]!.hash }), 2],
  ["an event left out", (log) => log.toSpliced(2, 1), 2],
  ["an event twice", (log) => log.toSpliced(2, 0, log[1]!), 2],
  ["the first one left out", (log) => log.slice(1), 0],
])("%s is found", async (_, tamper, verified) => {
  const report = await verifyChain(reader(tamper(seal(payloads)), 2), silent)
  expect(report).toMatchObject({ intact: false, events: verified })
})
