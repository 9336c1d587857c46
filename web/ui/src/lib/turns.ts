// Work that may be much at once (the sections of a long document, drawn for the first time) is done in
// turns, first come, first served, so that the page answers and the first section is seen at once.

/** How long one turn may take before the browser gets its chance to draw, in milliseconds. */
const turnMs = 16

const jobs = new Set<() => void>()
let running = false

/** Does the job in its turn; what comes back takes it out of the queue. */
export function inTurn(job: () => void): () => void {
  jobs.add(job)
  if (!running) {
    running = true
    queueMicrotask(run)
  }
  return () => jobs.delete(job)
}

function run(): void {
  const end = performance.now() + turnMs
  for (const job of jobs) {
    jobs.delete(job)
    job()
    if (performance.now() >= end) break
  }
  running = jobs.size > 0
  if (running) setTimeout(run)
}
