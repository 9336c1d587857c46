import { expect, test } from "vitest"
import { endOf, formatSeconds, secondsLeft, untilNextSecond } from "../src/lib/countdown"

test("a countdown shows 1 until the very end, and then nothing", () => {
  const end = endOf(2_500, 1_000)
  expect([1_000, 1_499, 1_501, 2_500, 3_499.9, 3_500, 9_999].map((now) => secondsLeft(end, now))).toEqual([3, 3, 2, 1, 1, 0, 0])
})

test("waiting until the next second shows each second once", () => {
  const end = endOf(3_250, 0)
  const shown: number[] = []
  for (let now = 0; ; ) {
    shown.push(secondsLeft(end, now))
    if (shown.at(-1) === 0) break
    now += untilNextSecond(end, now)
  }
  expect(shown).toEqual([4, 3, 2, 1, 0])
})

test("seconds look like a clock from a minute on", () => {
  expect([0, 9, 59, 60, 65, 300].map(formatSeconds)).toEqual(["0\u00a0s", "9\u00a0s", "59\u00a0s", "1:00", "1:05", "5:00"])
})
