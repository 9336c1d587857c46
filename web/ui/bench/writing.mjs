// How soon somebody can write in a long document, and whether the page answers meanwhile.

import { setTimeout as sleep } from "node:timers/promises"
import { createLong, watch } from "./long.mjs"

/** The click comes as soon as there is text, or so many milliseconds after all of it is. */
const laterMs = 5_000
/** How long the browser gets to keep the replica, before the document is opened anew. */
const keptMs = 3_000
const rounds = 3

export async function measureWriting({ call, signedIn, url }) {
  const { slug } = await createLong(call)
  const open = async (page) => {
    await page.goto(`${url}/d/${slug}`, { waitUntil: "commit" })
    await page.waitForFunction(() => globalThis.firstText, null, { polling: 20 })
  }
  const figures = { "cold, at once": [], "cold, a while later": [], "with what the browser kept, at once": [] }
  for (let i = 0; i < rounds; i++) {
    for (const [when, measured] of Object.entries(figures)) {
      const page = await signedIn("writer", "editor", { viewport: { width: 1360, height: 900 } })
      await page.addInitScript(watch)
      await open(page)
      if (when !== "cold, at once") {
        await page.waitForFunction(() => document.querySelectorAll("article .prose:not(:empty)").length === 500, null, { timeout: 120_000 })
        await sleep(laterMs)
      }
      if (when.startsWith("with")) {
        await page.evaluate(clickToCaret)
        await sleep(keptMs)
        await page.goto("about:blank")
        await open(page)
      }
      measured.push(await page.evaluate(clickToCaret))
      await page.context().close()
    }
  }
  const list = (values) => values.map((ms) => ms.toFixed(0)).join(", ")
  for (const [when, measured] of Object.entries(figures)) {
    console.log(`writing in it, ${when}: ${list(measured.map(({ took }) => took))} ms from the click to the caret; the longest task meanwhile ${list(measured.map(({ longest }) => longest))} ms`)
  }
}

/** Runs in the page. Tasks under 50 ms are not told of, and count as 0. */
function clickToCaret() {
  return new Promise((resolve) => {
    const section = document.querySelectorAll("article section")[10]
    globalThis.longTasks.splice(0)
    const began = performance.now()
    const look = () => {
      if (!section.querySelector(".editor .sheet")?.shadowRoot?.activeElement) return requestAnimationFrame(look)
      const took = performance.now() - began
      // A long task is told of after it has ended, the one that brought the caret too.
      setTimeout(() => resolve({ took, longest: Math.max(0, ...globalThis.longTasks.map(([, duration]) => duration)) }), 100)
    }
    section.querySelector('[aria-label^="Write in"]').click()
    requestAnimationFrame(look)
  })
}
