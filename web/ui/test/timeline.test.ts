import { expect, test } from "vitest"
import { overlapOf } from "../src/lib/overlaps.svelte"
import { fold, kindOf, passes, type Filter } from "../src/lib/timeline"
import type { LogEvent } from "../src/lib/wire"

let seq = 0
const event = (type: string, actor: string, payload: unknown = { sectionId: "goals" }) =>
  ({ id: `e${++seq}`, seq: String(seq), event_type: type, actor_id: actor, payload, created_at: "2026-01-02T03:04:05.000Z" }) as unknown as LogEvent

test("what one author repeats in one section is one entry, and nothing else is", () => {
  const log = [
    event("section.edited", "ann"),
    event("section.edited", "ann"),
    event("section.edited", "bob"),
    event("section.edited", "bob", { sectionId: "risks" }),
    event("message.posted", "bob", { text: "x" }),
    event("message.posted", "bob", { text: "x" }),
    event("section.edited", "bob", { sectionId: "risks" }),
    event("section.edited", "bob", { sectionId: "risks" }),
    event("section.edited", "bob", { sectionId: "risks" }),
    event("section.lease_overridden", "bob", { sectionId: "risks", holder: "ann" }),
    event("section.lease_overridden", "bob", { sectionId: "risks", holder: "cy" }),
  ]
  expect(fold(log).map((entry) => entry.length)).toEqual([2, 1, 1, 1, 1, 3, 1, 1])
  expect(fold(log).flat()).toEqual(log)
  expect(fold([])).toEqual([])
})

test.each([
  ["section.edited", "writing"],
  ["section.overlap", "writing"],
  ["section.lease_overridden", "writing"],
  ["section.leased", "leases"],
  ["section.lease_queued", "leases"],
  ["section.moved", "sections"],
  ["document.renamed", "document"],
  ["message.posted", "messages"],
])("%s is of the kind %s", (type, kind) => {
  expect(kindOf(event(type, "ann"))).toBe(kind)
})

test("a filter asks for author, section and kind at once; a holder counts as one who acts", () => {
  const any: Filter = { agent: "", section: "", kind: "" }
  const overridden = event("section.lease_overridden", "bob", { sectionId: "risks", holder: "ann" })
  const wanted = (filter: object) => passes(overridden, { ...any, ...filter })
  expect([wanted({}), wanted({ agent: "bob" }), wanted({ agent: "ann" }), wanted({ agent: "cy" })]).toEqual([true, true, true, false])
  expect([wanted({ section: "risks", kind: "writing" }), wanted({ section: "goals" }), wanted({ agent: "bob", kind: "leases" })]).toEqual([true, false, false])
  expect(passes(event("message.posted", "ann", null), { ...any, section: "goals" as Filter["section"] })).toBe(false)
})

test("an overlap has both authors and both texts; a payload of another shape is none", () => {
  const payload = { sectionId: "goals", authors: ["ann", "bob"], places: [{ at: 3, text: "old", mine: "hers", their: "his" }, null] }
  expect(overlapOf(event("section.overlap", "ann", payload))).toMatchObject({
    section: "goals",
    later: "ann",
    earlier: ["bob"],
    places: [{ before: "old", later: "hers", earlier: "his" }, { before: "", later: "", earlier: "" }],
  })
  for (const odd of [{}, { ...payload, authors: ["ann"] }, { ...payload, places: 3 }, { ...payload, sectionId: 4 }, { ...payload, authors: "ann,bob" }]) {
    expect(overlapOf(event("section.overlap", "ann", odd))).toBeUndefined()
  }
  expect(overlapOf(event("section.edited", "ann", payload))).toBeUndefined()
})
