import { expect, test } from "vitest"
import { hueOf, initialsOf } from "../src/lib/authors"

test("a name has one hue on the circle, and names that are alike differ", () => {
  const hues = ["agent-alpha", "agent-beta", "agent-gamma", "agent-1", "agent-2", "ann", ""].map(hueOf)
  for (const hue of hues) expect(hue).toBeGreaterThanOrEqual(0)
  for (const hue of hues) expect(hue).toBeLessThan(360)
  expect(new Set(hues).size).toBe(hues.length)
  expect(hueOf("agent-alpha")).toBe(hues[0])
})

test.each([
  ["agent-alpha", "al"],
  ["ann", "an"],
  ["agent-7", "a7"],
  ["x", "x"],
  ["", "?"],
])("the initials of %j", (name, initials) => {
  expect(initialsOf(name)).toBe(initials)
})
