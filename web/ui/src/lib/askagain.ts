// Waiting for what may come back, where nobody tells that it has.

/** In milliseconds: the first wait, and the longest; each is twice as long as the one before. */
const [firstMs, longestMs] = [2_000, 60_000]

/** Asks again and again, more and more rarely, while the page is in sight; at once when it comes into sight. What comes back ends it. */
export function askAgain(ask: () => Promise<unknown>): () => void {
  let pauseMs = firstMs
  let timer: ReturnType<typeof setTimeout> | undefined
  let ended = false

  const wait = () => {
    timer = setTimeout(attempt, pauseMs)
    pauseMs = Math.min(2 * pauseMs, longestMs)
  }
  const attempt = async () => {
    timer = undefined
    if (!document.hidden) await ask()
    if (!ended) wait()
  }
  const seen = () => {
    // Without a timer it is being asked already.
    if (document.hidden || timer === undefined) return
    clearTimeout(timer)
    void attempt()
  }

  wait()
  document.addEventListener("visibilitychange", seen)
  return () => {
    ended = true
    clearTimeout(timer)
    document.removeEventListener("visibilitychange", seen)
  }
}
