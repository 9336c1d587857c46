import { expect, test } from "vitest"
import { Durations } from "../src/lib/duration"

const locales = { en: new Durations("en"), de: new Durations("de"), ar: new Durations("ar-EG") }
const lengths = [0, 1, 48, 60, 125, 3600, 3725, 86_400]
/** Which space stands between a number and its unit is the locale data's own matter. */
const plainly = (text: string) => text.replace(/\s/g, " ")

test("a length of time is written as the reader's locale has it", () => {
  const told = (durations: Durations) => lengths.map((seconds) => plainly(durations.ofSeconds(seconds)))
  expect(told(locales.en)).toEqual(["0 sec", "1 sec", "48 sec", "1 min", "2 min, 5 sec", "1 hr", "1 hr, 2 min", "24 hr"])
  expect(told(locales.de)).toEqual(["0 Sek.", "1 Sek.", "48 Sek.", "1 Min.", "2 Min., 5 Sek.", "1 Std.", "1 Std., 2 Min.", "24 Std."])
  expect(told(locales.ar)).toEqual(["٠ ث", "١ ث", "٤٨ ث", "١ د", "٢ د و٥ ث", "١ س", "١ س و٢ د", "٢٤ س"])
})

test("a countdown is narrow, a choice is spelled out", () => {
  expect(plainly(locales.en.ofSeconds(125, "narrow"))).toBe("2m 5s")
  expect(plainly(locales.de.ofSeconds(125, "narrow"))).toBe("2 Min., 5 Sek.")
  expect([1, 30].map((days) => plainly(locales.de.of(days, "day", "long")))).toEqual(["1 Tag", "30 Tage"])
  expect(plainly(locales.ar.of(7, "day", "long"))).toBe("٧ أيام")
})

test("a part of a second is kept", () => {
  expect(plainly(locales.de.of(1.5, "second"))).toBe("1,5 Sek.")
  expect([0, 250, 1_000, 20_500, 61_250, 300_000].map((ms) => plainly(locales.en.ofMs(ms)))).toEqual(["0 sec", "250 ms", "1 sec", "20.5 sec", "1 min, 1.25 sec", "5 min"])
})
