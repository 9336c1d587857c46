// The server's clock, as its answers tell it: a reader's own may be wrong by minutes, and what is compared with the times
// that the server gives has to be of the same clock.

let ahead = 0

/** Learns from an answer how far the server's clock is ahead of the reader's. Its Date counts whole seconds. */
export function learnClock(response: Response): void {
  const told = Date.parse(response.headers.get("Date") ?? "")
  if (!Number.isNaN(told)) ahead = told - Date.now()
}

/** The time at the server, in milliseconds, within some seconds. */
export const serverNow = (): number => Date.now() + ahead
