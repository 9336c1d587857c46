// A document of 1 MB in 500 sections, and what is noted of a page that opens it.

export async function createLong(call) {
  const paragraph = "Some words of the text, *set* in [many](https://example.org) ways, and long enough for a line or two of it.\n\n"
  const markdown = Array.from({ length: 500 }, (_, i) => `## Section ${i}\n\n${paragraph.repeat(19)}`).join("")
  const { slug } = await call("POST", "/documents", { title: "Long", markdown })
  return { slug, bytes: markdown.length }
}

/** Runs in the page: notes the tasks that keep it from answering (beginning and duration), and when the first text is there. */
export function watch() {
  globalThis.longTasks = []
  new PerformanceObserver((list) => globalThis.longTasks.push(...list.getEntries().map(({ startTime, duration }) => [startTime, duration]))).observe({ type: "longtask", buffered: true })
  const look = () => {
    if (document.querySelector("article .prose p")) setTimeout(() => (globalThis.firstText = performance.now()))
    else requestAnimationFrame(look)
  }
  requestAnimationFrame(look)
}
