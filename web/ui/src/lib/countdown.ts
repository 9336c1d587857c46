// Countdowns run on the page's monotonic clock: the server says how many milliseconds are left, and neither
// the server's wall clock nor the reader's has to be right.

/** An instant on the clock of performance.now(), in milliseconds. */
export type Instant = number

/** When something ends that has this long to go at the instant its answer came in. */
export function endOf(expiresInMs: number, received: Instant): Instant {
  return received + expiresInMs
}

/** Whole seconds to show: 1 until the very end, 0 from the end on. */
export function secondsLeft(end: Instant, now: Instant): number {
  return Math.max(0, Math.ceil((end - now) / 1000))
}

/** Milliseconds until secondsLeft changes next. */
export function untilNextSecond(end: Instant, now: Instant): number {
  const left = end - now
  return left <= 0 ? 0 : left - (Math.ceil(left / 1000) - 1) * 1000
}
