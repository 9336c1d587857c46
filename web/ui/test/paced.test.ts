import { afterEach, beforeEach, expect, test, vi } from "vitest"
import { paced } from "../src/lib/paced"

beforeEach(() => void vi.useFakeTimers())
afterEach(() => void vi.useRealTimers())

test("what is asked for once runs at once; what is asked for in between runs once when the time is up", () => {
  const run = vi.fn()
  const ask = paced(200, run)
  ask()
  expect(run).toHaveBeenCalledTimes(1)
  ask()
  ask()
  vi.advanceTimersByTime(199)
  expect(run).toHaveBeenCalledTimes(1)
  vi.advanceTimersByTime(1)
  expect(run).toHaveBeenCalledTimes(2)
  vi.advanceTimersByTime(1_000)
  expect(run).toHaveBeenCalledTimes(2)
  ask()
  expect(run).toHaveBeenCalledTimes(3)
})
