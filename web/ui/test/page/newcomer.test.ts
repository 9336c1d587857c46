// What somebody finds who has never seen the page, on a document that agents are writing at that moment, and in how many
// clicks.

import { setTimeout as pass } from "node:timers/promises"
import type { Browser, Page } from "playwright-core"
import { afterAll, beforeAll, expect, test } from "vitest"
import type { Document, DocumentRef, SectionId } from "../../src/lib/wire"
import { admin, caller, launch, Reader, sectionId, type Caller } from "./world"

let browser: Browser
let agents: [Caller, Caller]
let document: Document & { slug: DocumentRef }
let goals: SectionId
let risks: SectionId
let reader: Reader
let page: Page
const leaving = new AbortController()
let written: Promise<unknown>

beforeAll(async () => {
  browser = await launch()
  agents = [await caller("agent-alpha", "editor"), await caller("agent-beta", "editor")]
  document = await admin.create("Busy plan", "# Plan\n\nBy many.\n\n## Goals\n\nCount: 0.\n\n## Risks\n\nCount: 0.\n\n## Words\n\nNobody is here.\n")
  goals = sectionId(document, "Goals")
  risks = sectionId(document, "Risks")
  await agents[1].lease(document.slug, risks, 300, "listing them")
  written = Promise.all([write(agents[0], goals), write(agents[1], risks)])
  reader = await Reader.open(browser)
  page = reader.page
  await reader.signIn(await caller("newcomer", "editor"), `/d/${document.slug}`)
  await reader.live()
})
afterAll(async () => {
  leaving.abort()
  await written
  await reader.close()
  await browser.close()
})

/** An agent writes the next number twice a second. */
async function write(agent: Caller, section: SectionId): Promise<void> {
  while (!leaving.signal.aborted) {
    await agent.write(document.slug, section, (text) => text.replace(/\d+/, (n) => String(Number(n) + 1)))
    await pass(500, undefined, { signal: leaving.signal }).catch(() => undefined)
  }
}

/** How often the mouse was clicked on the way. */
async function clicks(way: () => Promise<void>): Promise<number> {
  await page.evaluate(() => {
    const counting = globalThis as { clicks?: number }
    if (counting.clicks === undefined) addEventListener("click", ({ isTrusted }) => isTrusted && (counting.clicks = counting.clicks! + 1), true)
    counting.clicks = 0
  })
  await way()
  return page.evaluate(() => (globalThis as { clicks?: number }).clicks!)
}

test("who is writing, and where, is in sight", async () => {
  const count = await clicks(async () => {
    await page.getByRole("list", { name: "Who is here" }).getByRole("button", { name: "Follow agent-alpha" }).waitFor()
    await reader.section(goals).getByText(/agent-alpha\s+wrote here/).waitFor()
    await reader.section(risks).getByText(/agent-beta\s+wrote here/).waitFor()
  })
  expect(count).toBe(0)
})

test("who holds a section, and until when, is in sight", async () => {
  const count = await clicks(async () => {
    const badge = reader.section(risks).locator(".badge")
    await badge.getByText("holds the lease").waitFor()
    expect((await badge.locator(".countdown").innerText()).replace(/\s/g, " ")).toMatch(/^[1-5]m( \d+s)?$/)
    expect(await badge.innerText()).toMatch(/agent-beta[^]*listing them/)
  })
  expect(count).toBe(0)
})

test("to write is one click into the text", async () => {
  const words = reader.section(sectionId(document, "Words"))
  const count = await clicks(async () => {
    await words.getByText("Nobody is here.").click()
    await words.getByRole("textbox", { name: "Text of Words" }).and(page.locator(":focus")).waitFor()
    await page.keyboard.type("Hello! ")
    await page.getByText("Saved", { exact: true }).waitFor()
  })
  expect(count).toBe(1)
  await expect.poll(async () => (await admin.section(document.slug, sectionId(document, "Words"))).text).toContain("Hello! ")
  await page.keyboard.press("Escape")
})

test("what changed in the last minute is three clicks away, and the log tells of it without any", async () => {
  await page.locator('.log li[data-type="section.edited"]').first().waitFor()
  const count = await clicks(async () => {
    await page.getByRole("button", { name: "History" }).click()
    await page.getByRole("button", { name: "A minute ago" }).click()
    await page.getByRole("button", { name: "What changed since" }).click()
    const change = page.getByRole("region", { name: /^Goals, / })
    await change.locator("ins").first().waitFor()
    await change.locator("del").first().waitFor()
  })
  expect(count).toBe(3)
  await page.getByRole("button", { name: "Back to the text" }).click()
})

test("yesterday's text is back in three clicks", async () => {
  const count = await clicks(async () => {
    await page.getByRole("button", { name: "History" }).click()
    await page.getByRole("button", { name: "Yesterday" }).click()
    await page.getByText("Version 1 of").waitFor()
    await page.getByRole("button", { name: "Bring back this text of Words" }).click()
    await page.getByText("The section has this text again.").waitFor()
  })
  expect(count).toBe(3)
  await expect.poll(async () => (await admin.section(document.slug, sectionId(document, "Words"))).text).toBe("## Words\n\nNobody is here.\n")
})
