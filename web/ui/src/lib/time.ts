// Times as the reader's locale writes them.

const clock = new Intl.DateTimeFormat(undefined, { hour: "2-digit", minute: "2-digit", second: "2-digit" })
const dayAndClock = new Intl.DateTimeFormat(undefined, { day: "numeric", month: "short", hour: "2-digit", minute: "2-digit", second: "2-digit" })
const exact = new Intl.DateTimeFormat(undefined, { dateStyle: "full", timeStyle: "long" })
const date = new Intl.DateTimeFormat(undefined, { dateStyle: "medium" })
const ago = new Intl.RelativeTimeFormat(undefined, { numeric: "auto" })

/** The time of day; with the day where it is not today. */
export function shortTime(at: Date, now: Date): string {
  return at.toDateString() === now.toDateString() ? clock.format(at) : dayAndClock.format(at)
}

/** Everything there is to say of an instant, for a tooltip. */
export function exactTime(at: Date): string {
  return exact.format(at)
}

/** The day alone. */
export function shortDate(at: Date): string {
  return date.format(at)
}

/** "2 minutes ago"; a date once a week has passed. */
export function relativeTime(at: Date, now: Date): string {
  const seconds = (at.getTime() - now.getTime()) / 1000
  const units: [Intl.RelativeTimeFormatUnit, number, number][] = [
    ["second", 1, 60],
    ["minute", 60, 3600],
    ["hour", 3600, 86_400],
    ["day", 86_400, 7 * 86_400],
  ]
  for (const [unit, size, end] of units) {
    if (Math.abs(seconds) < end) return ago.format(Math.trunc(seconds / size), unit)
  }
  return date.format(at)
}
