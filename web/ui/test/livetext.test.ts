// @vitest-environment jsdom

import { expect, test } from "vitest"
import { LiveText, type ChangedFrame, type OpenedFrame } from "../src/lib/livetext"
import type { SectionDiff, SectionId, Version } from "../src/lib/wire"

const version = (name: string) => name as Version
const section = (id: string, text: string, position: string) => ({ id: id as SectionId, text, position, heading: "", level: 0 })
const changed = (from: string, to: string, ...sections: Partial<SectionDiff>[]) => ({ type: "changed", from, to, sections }) as ChangedFrame
const begun = () => new LiveText({ title: "Plan", version: version("v1"), sections: [section("a", "One 🙂 two.", "P"), section("b", "Three.", "g")], removed: [] })
const shown = (text: LiveText) => text.content.sections.map(({ id, text }) => `${id}: ${text}`)

test("operations count in code points, and leave what they do not touch", () => {
  const text = begun()
  const ops = [
    { at: 4, delete: 1, insert: "and" },
    { at: 9, delete: 0, insert: "!" },
  ]
  expect(text.apply(changed("v1", "v2", { id: "a" as SectionId, position: "P", ops }))).toBe(true)
  expect(text.version).toBe("v2")
  expect(shown(text)).toEqual(["a: One and two!.", "b: Three."])
})

test("sections come, move, are removed, brought back and go for good", () => {
  const text = begun()
  const c = "c" as SectionId
  text.apply(changed("v1", "v2", { ...section("c", "New.", "A"), made: true }))
  expect(shown(text)).toEqual(["c: New.", "a: One 🙂 two.", "b: Three."])
  text.apply(changed("v2", "v3", { id: c, position: "z" }))
  expect(shown(text)).toEqual(["a: One 🙂 two.", "b: Three.", "c: New."])
  text.apply(changed("v3", "v4", { id: c, position: "z", removed: true }))
  expect(shown(text)).toEqual(["a: One 🙂 two.", "b: Three."])
  expect(text.content.removed).toEqual([{ id: c, text: "New.", position: "z" }])
  text.apply(changed("v4", "v5", { id: c, position: "z", ops: [{ at: 0, delete: 3, insert: "Old" }] }))
  expect(shown(text).at(-1)).toBe("c: Old.")
  text.apply(changed("v5", "v6", { id: c, gone: true }))
  expect(shown(text)).toEqual(["a: One 🙂 two.", "b: Three."])
  expect(text.content.removed).toEqual([])
})

test("a change that begins at another version is refused and changes nothing", () => {
  const text = begun()
  expect(text.apply(changed("v7", "v8", { id: "b" as SectionId, position: "g", ops: [{ at: 0, insert: "Not " }] }))).toBe(false)
  expect(text.version).toBe("v1")
  expect(shown(text)).toEqual(["a: One 🙂 two.", "b: Three."])
})

test("a document that is opened anew begins anew, unless it is resumed or only its log is told", () => {
  const text = begun()
  const opened = { type: "opened", title: "Other", version: version("v9"), sections: [section("d", "Else.", "P")] } satisfies OpenedFrame
  text.begin({ ...opened, resumed: true })
  text.begin({ type: "opened", title: "Other" })
  expect(text.version).toBe("v1")
  text.begin(opened)
  expect(text.version).toBe("v9")
  expect(text.content.title).toBe("Other")
  expect(shown(text)).toEqual(["d: Else."])
})
