import { expect, test } from "vitest"
import { endOf, secondsLeft, untilNextSecond } from "../src/lib/countdown"

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
