import type { Browser } from "playwright-core"
import { afterAll, beforeAll, expect, test } from "vitest"
import { admin, caller, launch, Reader } from "./world"

let browser: Browser

beforeAll(async () => {
  browser = await launch()
})
afterAll(() => browser.close())

test("however much agents write and lease, a screen reader is told of it at most once in a few seconds", async () => {
  const agents = await Promise.all(["agent-alpha", "agent-beta", "agent-gamma"].map((name) => caller(name, "editor")))
  const document = await admin.create("Chatter", agents.map((_, i) => `## Part ${i}\n\nCount: 0.\n\n`).join(""))
  const reader = await Reader.open(browser)
  const { page } = reader
  await reader.signIn(await caller("listener", "editor"), `/d/${document.slug}`)
  await reader.live()

  // Whatever comes into a live region, or changes in it, is read out.
  await page.evaluate(() => {
    const regions = "[role='status'], [role='alert'], [role='log'], [aria-live]:not([aria-live='off'])"
    const told: { at: number; text: string }[] = []
    ;(globalThis as unknown as { told: typeof told }).told = told
    new MutationObserver((records) => {
      const changed = new Set<Element>()
      for (const { target, addedNodes } of records) {
        const region = (target instanceof Element ? target : target.parentElement)?.closest(regions)
        if (region) changed.add(region)
        for (const node of addedNodes) if (node instanceof Element) for (const each of node.querySelectorAll(regions)) changed.add(each)
      }
      for (const { textContent } of changed) if (textContent?.trim()) told.push({ at: performance.now(), text: textContent.trim() })
    }).observe(globalThis.document.body, { subtree: true, childList: true, characterData: true })
  })

  const began = performance.now()
  for (let round = 0; performance.now() - began < 25_000; round++) {
    await Promise.all(
      agents.map(async (agent, i) => {
        const { id } = document.sections[i]!
        await agent.lease(document.slug, id, 10)
        await agent.write(document.slug, id, (text) => text.replace(/\d+/, String(round)))
        await agent.call("DELETE", `/documents/${document.slug}/sections/${id}/lease`)
      }),
    )
  }
  const told = await page.evaluate(() => (globalThis as unknown as { told: { at: number; text: string }[] }).told)
  expect(told.length, "the log is told of once in 20 s").toBeGreaterThan(0)
  const gaps = told.slice(1).map(({ at, text }, i) => ({ text, after: at - told[i]!.at }))
  expect(gaps.filter(({ after }) => after < 3_000), "read out within 3 s of what was read before").toEqual([])
  await reader.close()
})
