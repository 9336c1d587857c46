// @vitest-environment jsdom

import { expect, test } from "vitest"
import { changeOf, marksOf, passagesOf, shorten } from "../src/lib/diff"
import { versionsOf } from "../src/lib/versions"
import type { BlameRange, Document, LogEvent, SectionDiff, SectionId, TextOp } from "../src/lib/wire"
import { random } from "./random"

test("operations count in code points", () => {
  expect(marksOf("a👩b", [{ at: 2, delete: 1, insert: "c👍" }])).toEqual([
    { kind: "same", text: "a👩" },
    { kind: "deleted", text: "b" },
    { kind: "inserted", text: "c👍" },
  ])
  expect(marksOf("", [{ at: 0, insert: "x" }])).toEqual([{ kind: "inserted", text: "x" }])
  expect(marksOf("x", [])).toEqual([{ kind: "same", text: "x" }])
})

test("the marks hold the text before and the text after", () => {
  const seed = Date.now() % 1_000_000
  const pick = random(seed)
  for (let i = 0; i < 500; i++) {
    const points = Array.from({ length: pick(30) }, () => ["a", "é", "👩", "\n"][pick(4)]!)
    const ops: TextOp[] = []
    let after = ""
    let at = 0
    while (at <= points.length) {
      const next = Math.min(at + pick(6), points.length)
      after += points.slice(at, next).join("")
      const op = { at: next, delete: pick(Math.min(4, points.length - next + 1)), insert: pick(2) ? "✓👍" : "" }
      ops.push(op)
      after += op.insert
      at = next + op.delete
      if (next === points.length || pick(3) === 0) break
    }
    after += points.slice(at).join("")
    const marks = marksOf(points.join(""), ops)
    const without = (kind: string) => marks.flatMap((mark) => (mark.kind === kind ? [] : mark.text)).join("")
    expect([without("inserted"), without("deleted")], `seed ${seed}`).toEqual([points.join(""), after])
  }
})

test("only long unchanged text is shortened, and no character is cut in two", () => {
  const long = { kind: "same" as const, text: "👩".repeat(1_000) }
  const inserted = { ...long, kind: "inserted" as const }
  const [short, kept] = shorten([long, inserted])
  expect(short!.text.length).toBeLessThan(500)
  expect(() => encodeURIComponent(short!.text)).not.toThrow()
  expect(kept).toEqual(inserted)
})

test("passages are cut by code points", () => {
  const ranges = [{ at: 0, length: 2, agent: "ann" }, { at: 2, length: 1 }] as BlameRange[]
  expect(passagesOf("👩a👍", ranges)).toEqual([{ text: "👩a", agent: "ann" }, { text: "👍", agent: undefined }])
})

test("what became of a section is told in a word, with its text", () => {
  const section = (id: string, more: object) => ({ id, heading: "", level: 0, text: "", position: "a", ops: [], ...more }) as unknown as SectionDiff
  const before = { sections: [{ id: "goals", text: "## Goals\n" }], removed: [{ id: "ideas", text: "## Ideas\n" }] } as unknown as Document
  const told = (diff: SectionDiff) => {
    const { name, what, marks } = changeOf(diff, before)
    return [name, what, ...marks.map(({ kind, text }) => `${kind} ${text.trim()}`)]
  }
  expect(told(section("new", { made: true, text: "## New\n" }))).toEqual(["New", "added", "inserted ## New"])
  expect(told(section("goals", { gone: true }))).toEqual(["Goals", "removed", "deleted ## Goals"])
  expect(told(section("goals", { removed: true }))).toEqual(["Goals", "removed", "deleted ## Goals"])
  expect(told(section("ideas", {}))).toEqual(["Ideas", "restored", "inserted ## Ideas"])
  expect(told(section("goals", {}))).toEqual(["Goals", "moved"])
  expect(told(section("goals", { ops: [{ at: 3, delete: 5 }] }))).toEqual(["Goals", "changed", "same ##", "deleted Goals", "same "])
})

test("versions are those that an event made, of one section if asked for", () => {
  const event = (type: string, payload: unknown) => ({ event_type: type, payload }) as LogEvent
  const events = [
    event("document.created", { sections: ["goals"], version: "v0" }),
    event("section.edited", { sectionId: "goals", version: "v1" }),
    event("section.edited", { sectionId: "risks", version: "v2" }),
    event("section.overlap", { sectionId: "risks", version: "v2" }),
    event("section.edited", { sectionId: "risks", version: 7 }),
    event("message.posted", null),
  ]
  expect(versionsOf(events, "").map(({ version }) => version)).toEqual(["v0", "v1", "v2"])
  expect(versionsOf(events, "goals" as SectionId).map(({ version }) => version), "the document was made with it").toEqual(["v0", "v1"])
  expect(versionsOf(events, "risks" as SectionId).map(({ version }) => version)).toEqual(["v2"])
})
