// @vitest-environment jsdom

import { describe, expect, test } from "vitest"
import { readContent } from "../src/lib/sections"
import { titleOf } from "../src/lib/titles"
import type { SectionId } from "../src/lib/wire"

class Scalar {
  constructor(readonly val: string) {}
}
const readString = (value: unknown) => (typeof value === "string" ? value : value instanceof Scalar ? value.val : undefined)
const order = (sections: unknown) => readContent({ sections }, readString).sections.map((section) => section.id)

const idsRemoved = (sections: unknown) => readContent({ sections }, readString).removed.map((section) => section.id)

describe("order", () => {
  test("by position, then by id", () => {
    expect(order({ c: { body: "", position: "a2" }, b: { body: "", position: "a1" }, a: { body: "", position: "a1" } })).toEqual(["a", "b", "c"])
  })

  test("positions are compared by code unit, not by a locale's rules", () => {
    expect(order({ a: { body: "", position: "a" }, b: { body: "", position: "Z" }, c: { body: "", position: "a0" } })).toEqual(["b", "a", "c"])
  })

  test("a section without a position, or with one that is no string, comes last", () => {
    expect(order({ a: { body: "" }, b: { body: "", position: 7 }, c: { body: "", position: "zz" }, d: { body: "", position: "" } })).toEqual(["c", "a", "b", "d"])
  })

  test("what is removed is left out, and only true removes", () => {
    expect(order({ a: { body: "", position: "1", removed: true }, b: { body: "", position: "2", removed: false }, c: { body: "", position: "3", removed: "yes" } })).toEqual(["b", "c"])
    expect(idsRemoved({ c: { body: "", position: "2", removed: true }, b: { body: "" }, a: { body: "", position: "3", removed: true } })).toEqual(["c", "a"])
  })
})

test("strings may be Text or scalar", () => {
  const content = readContent({ title: new Scalar("T"), sections: { a: { body: new Scalar("x"), position: new Scalar("p") } } }, readString)
  expect(content).toEqual({ title: "T", sections: [{ id: "a", text: "x", position: "p" }], removed: [] })
})

test.each([
  [null], [undefined], [7], ["text"], [[]], [{}], [{ sections: null }], [{ sections: [] }], [{ sections: "x" }], [{ sections: { a: null } }],
  [{ sections: { a: [] } }], [{ sections: { a: { body: 7 } } }], [{ sections: { a: { body: {} } } }], [{ title: {}, sections: { "Bad Id": { body: "x" } } }],
  [{ sections: { "": { body: "x" } } }], [{ sections: new Date() }], [{ sections: new Uint8Array(3) }],
])("odd content is passed over: %j", (root) => {
  expect(readContent(root, readString)).toEqual({ title: "", sections: [], removed: [] })
})

test("a section is called by its heading, its first words or its id", () => {
  const id = "intro-1" as SectionId
  expect(titleOf({ id, text: "# Intro\n" })).toEqual({ name: "Intro", level: 1 })
  expect(titleOf({ id, text: "Some words that go on and on for much longer than fits\n" }).name).toBe("Some words that go on and on for much lo…")
  expect(titleOf({ id, text: "\n" }).name).toBe("intro-1")
})
