import { expect, test } from "vitest"
import { bytes, number, plural } from "../src/lib/numbers"

test("numbers, plurals and sizes are written as the locale has them", () => {
  expect(number(1234.5)).toBe(new Intl.NumberFormat().format(1234.5))
  const events = { one: "# event", other: "# events" }
  expect([0, 1, 2, 1000].map((n) => plural(n, events))).toEqual(["0 events", "1 event", "2 events", `${number(1000)} events`])
})

test("a size has the unit in which it is short", () => {
  const sizes: [number, number, string][] = [
    [0, 0, "byte"],
    [999, 999, "byte"],
    [1000, 1, "kilobyte"],
    [1_234_567, 1.23, "megabyte"],
    [5e13, 50_000, "gigabyte"],
  ]
  for (const [n, shown, unit] of sizes) {
    const format = new Intl.NumberFormat(undefined, { style: "unit", unit, unitDisplay: unit === "byte" ? "long" : "short", maximumSignificantDigits: 3 })
    expect(bytes(n)).toBe(format.format(shown))
  }
})
