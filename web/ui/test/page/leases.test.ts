import type { Browser } from "playwright-core"
import { afterAll, beforeAll, expect, test } from "vitest"
import type { Document, DocumentRef, SectionId } from "../../src/lib/wire"
import { admin, caller, desktop, launch, Reader, sectionId, serverUrl, type Caller } from "./world"

let browser: Browser
let alpha: Caller
let ann: Caller
let document: Document & { slug: DocumentRef }
let goals: SectionId

beforeAll(async () => {
  browser = await launch()
  alpha = await caller("agent-alpha", "editor")
  ann = await caller("ann", "editor")
})
afterAll(() => browser.close())

async function open(title: string): Promise<Reader> {
  document = await admin.create(title, "# Plan\n\n## Goals\n\nOne goal.\n")
  goals = sectionId(document, "Goals")
  const reader = await Reader.open(browser)
  await reader.signIn(ann, `/d/${document.slug}`)
  await reader.live()
  return reader
}

const leasePath = () => `/documents/${document.slug}/sections/${goals}/lease`
const holder = async () => (await alpha.call<{ leases: { holder: string }[] }>("GET", `/documents/${document.slug}/leases`)).leases.map((lease) => lease.holder)

test("a person queues, leaves, queues again, and has the lease as soon as the holder lets go", async () => {
  const reader = await open("Queued")
  const { page } = reader
  await alpha.lease(document.slug, goals, 300)
  const queue = page.getByRole("button", { name: "Queue for Goals", exact: true })
  await queue.click()
  await reader.section(goals).getByText("1 waiting: ann").waitFor()
  await page.getByRole("button", { name: "Leave the queue for Goals" }).click()
  await page.locator('li[data-type="section.lease_unqueued"]').waitFor()
  await queue.click()
  await reader.section(goals).getByText("1 waiting: ann").waitFor()
  await alpha.call("DELETE", leasePath())
  await reader.section(goals).getByText("It is your turn: you hold the lease.").waitFor()
  await reader.section(goals).getByText("(you) holds the lease").waitFor()
  expect(await holder()).toEqual(["ann"])
  await reader.close()
})

test("the holder is asked by a message that everybody reads in the log", async () => {
  const reader = await open("Asked")
  const { page } = reader
  await alpha.lease(document.slug, goals, 300)
  await page.getByRole("button", { name: "Ask agent-alpha about Goals" }).click()
  const message = page.getByLabel("Message to agent-alpha")
  expect(await message.inputValue()).toBe("Are you done with Goals?")
  await message.fill("May I have Goals for a minute?")
  await message.press("Enter")
  await page.locator('li[data-type="message.posted"]', { hasText: "ann: May I have Goals for a minute?" }).waitFor()
  const { events } = await alpha.call<{ events: { event_type: string; payload: unknown }[] }>("GET", `/documents/${document.slug}/events?since=0`)
  expect(events.find((event) => event.event_type === "message.posted")?.payload).toEqual({ text: "May I have Goals for a minute?", sectionId: goals, to: "agent-alpha" })
  await reader.close()
})

test("a lease is handed over, and a name that may not write is refused in words", async () => {
  const reader = await open("Handed over")
  const { page } = reader
  await reader.section(goals).hover()
  await page.getByRole("button", { name: "Take the lease on Goals" }).click()
  await page.getByRole("button", { name: "Hand over the lease on Goals" }).click()
  const to = page.getByLabel("Hand the lease to")
  await to.fill("nobody-here")
  await to.press("Enter")
  await reader.section(goals).getByText("nobody called nobody-here may write to this document").waitFor()
  await to.fill("agent-alpha")
  await to.press("Enter")
  await reader.section(goals).getByText("agent-alpha holds the lease now.").waitFor()
  await page.locator('li[data-type="section.lease_transferred"]', { hasText: "handed the lease on Goals to" }).waitFor()
  expect(await holder()).toEqual(["agent-alpha"])
  await reader.close()
})

test("a lease that ran out is taken back with one click", async () => {
  const reader = await open("Ran out")
  await ann.lease(document.slug, goals, 1)
  await reader.section(goals).getByText("Your lease on this section ran out.").waitFor()
  await reader.page.getByRole("button", { name: "Take back the lease on Goals" }).click()
  await reader.section(goals).getByText("(you) holds the lease").waitFor()
  await reader.section(goals).getByText("Your lease on this section ran out.").waitFor({ state: "detached" })
  expect(await holder()).toEqual(["ann"])
  await reader.close()
})

test("a lease that was lost while the page was closed is taken back with one click when it is opened again", async () => {
  const reader = await open("Lost meanwhile")
  const { page } = reader
  const take = async () => {
    await reader.section(goals).hover()
    await page.getByRole("button", { name: "Take the lease on Goals" }).click()
    await reader.section(goals).getByText("(you) holds the lease").waitFor()
    await expect.poll(() => page.evaluate(() => localStorage.getItem("cowrite:held:ann"))).toContain(goals)
  }
  const back = async () => {
    await page.goto(`${serverUrl}/d/${document.slug}`)
    await reader.live()
  }

  // Ended by an administrator.
  await take()
  await page.goto("about:blank")
  await admin.call("DELETE", `${leasePath()}?force=true&reason=stuck`)
  await back()
  const took = reader.section(goals).getByText("took your lease on this section away.")
  await took.waitFor()
  // What is not dealt with is still there the next time.
  await page.goto("about:blank")
  await back()
  await took.waitFor()
  await page.getByRole("button", { name: "Take back the lease on Goals" }).click()
  await reader.section(goals).getByText("(you) holds the lease").waitFor()
  expect(await holder()).toEqual(["ann"])

  // Given back by the reader's own program meanwhile: nothing was lost.
  await page.goto("about:blank")
  await ann.call("DELETE", leasePath())
  await back()
  await page.locator('li[data-type="section.lease_released"]').first().waitFor()
  await expect.poll(() => page.evaluate(() => localStorage.getItem("cowrite:held:ann"))).toBe(null)
  expect(await page.getByRole("button", { name: "Take back the lease on Goals" }).count()).toBe(0)
  await reader.close()
})

test.each([
  ["de-DE", /^\d+ Sek\.$/, /for 45 Sek\./],
  ["ar-EG", /^[٠-٩]+ ث$/, /for ٤٥ ث/],
])("a lease's countdown and its length are written as a reader of %s has them", async (locale, countdown, length) => {
  const document = await admin.create("Lengths", "# Plan\n\n## Goals\n\nOne goal.\n")
  const goals = sectionId(document, "Goals")
  const reader = await Reader.open(browser, { ...desktop, locale })
  await reader.signIn(ann, `/d/${document.slug}`)
  await reader.live()
  await alpha.lease(document.slug, goals, 45)
  const shown = await reader.section(goals).locator(".countdown").innerText()
  expect(shown.replace(/\s/g, " ")).toMatch(countdown)
  const told = await reader.page.locator('li[data-type="section.leased"] p').innerText()
  expect(told.replace(/\s/g, " ")).toMatch(length)
  await reader.close()
})
