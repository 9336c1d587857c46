// However one leaves a document, and however busy the thread of its replica and slow its line is, nothing typed is lost.

import type { Browser } from "playwright-core"
import { afterAll, beforeAll, expect, test } from "vitest"
import type { Document, SectionId } from "../../src/lib/wire"
import { closeAndStay, holdReplica, slowProxy } from "./holdup"
import { admin, caller, launch, Reader, sectionId, type Caller } from "./world"

let browser: Browser
let alpha: Caller
let ann: Caller

beforeAll(async () => {
  browser = await launch()
  ;[alpha, ann] = await Promise.all([caller("agent-alpha", "editor"), caller("ann", "editor")])
})
afterAll(() => browser.close())

const textOf = async ({ documentId }: Document, id: SectionId) => (await admin.call<{ text: string }>("GET", `/documents/${documentId}/sections/${id}`)).text

const words = "All of these words."

/** Somebody who typed while the thread of the replica was held up. */
async function writer(title: string) {
  const document = await admin.create(title, "## Goals\n\nOne goal.\n")
  const goals = sectionId(document, "Goals")
  const reader = await Reader.open(browser)
  await reader.signIn(ann, `/d/${document.slug}`)
  await (await reader.write(goals)).press("Control+End")
  const release = await holdReplica(reader.page)
  await alpha.write(document.slug, goals, (text) => text.replace("One", "Two"))
  await reader.page.keyboard.type(words)
  await reader.page.getByText("Unsaved", { exact: true }).waitFor()
  return { reader, page: reader.page, release, saved: () => expect.poll(() => textOf(document, goals)).toBe(`## Goals\n\nTwo goal.\n${words}`) }
}

test("by a link, with the editor open; and until it is saved the tab asks whether to be closed", async () => {
  const { reader, page, release, saved } = await writer("Left by a link")
  await page.getByRole("link", { name: "Cowrite: all documents" }).click()
  await page.getByRole("heading", { name: "Documents", exact: true }).waitFor()
  await closeAndStay(page)
  await release()
  await saved()
  await expect.poll(() => page.workers().length, { message: "the thread ends when all is saved" }).toBe(0)
  await reader.close()
})

test("by a link, with the editor closed", async () => {
  const { reader, page, release, saved } = await writer("Left when done")
  await page.keyboard.press("Escape")
  await page.getByRole("link", { name: "Cowrite: all documents" }).click()
  await page.getByRole("heading", { name: "Documents", exact: true }).waitFor()
  await release()
  await saved()
  await reader.close()
})

test("by a new address of the document, which shows what was written", async () => {
  const { reader, page, release, saved } = await writer("Left by a rename")
  await page.getByRole("button", { name: "Rename" }).click()
  await page.getByLabel("Address").fill("left-for-another")
  await page.getByRole("button", { name: "Save" }).click()
  await page.waitForURL("**/d/left-for-another")
  await release()
  await saved()
  await page.locator("article .prose").getByText(words).waitFor()
  await reader.close()
})

test("by closing the tab, which asks first", async () => {
  const { reader, page, release, saved } = await writer("Left by closing")
  await closeAndStay(page)
  await release()
  await saved()
  await page.getByText("Saved", { exact: true }).waitFor()
  await reader.close()
})

test("by signing out, which asks first", async () => {
  const { reader, page, release, saved } = await writer("Left by signing out")
  const asked = page.waitForEvent("dialog")
  const click = page.getByRole("button", { name: "Sign out" }).click()
  const dialog = await asked
  expect(dialog.message()).toContain("What you wrote in Left by signing out is not on the server yet")
  await dialog.dismiss()
  await click
  await release()
  await saved()
  await reader.close()
})

test("a handshake that was given up for another, and is answered all the same, ends nothing", async () => {
  const document = await admin.create("Slow line", "## Goals\n\nOne goal.\n")
  const goals = sectionId(document, "Goals")
  let answer!: () => void
  const answered = new Promise<void>((resolve) => (answer = resolve))
  const ends: Promise<void>[] = []
  const proxy = await slowProxy(async (path, closed) => {
    if (path.startsWith("/api/v1/sync") && ends.push(closed) === 1) await answered
  })
  const reader = await Reader.open(browser)
  const { page } = reader
  await page.goto(`${proxy.url}/d/${document.slug}`)
  await page.getByLabel("Your key").fill(ann.key)
  await page.getByRole("button", { name: "Sign in" }).click()
  await expect.poll(() => ends.length).toBe(1)
  await page.context().setOffline(true)
  await page.getByText("The link to the server is down.").waitFor()
  await page.context().setOffline(false)
  await (await reader.write(goals)).press("Control+End")
  answer()
  await ends[0]
  await page.keyboard.type(words)
  await expect.poll(() => textOf(document, goals)).toContain(words)
  await reader.close()
  await proxy.close()
})
