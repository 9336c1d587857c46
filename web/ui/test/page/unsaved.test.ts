// What is written while the server does not take it: nothing of it is lost, nobody writes into nothing, and the page says
// what becomes of it.

import type { Browser, Page } from "playwright-core"
import { afterAll, beforeAll, expect, test } from "vitest"
import type { Document, SectionId } from "../../src/lib/wire"
import { closeAndStay, holdReplica } from "./holdup"
import { keepsWords } from "./kept"
import { admin, caller, launch, Reader, sectionId, type Caller } from "./world"

let browser: Browser
let ann: Caller
let vera: Caller

beforeAll(async () => {
  browser = await launch()
  ;[ann, vera] = await Promise.all([caller("ann", "editor"), caller("vera", "viewer")])
})
afterAll(() => browser.close())

const words = "All of these words."
const textOf = async ({ documentId }: Document, id: SectionId) => (await admin.call<{ text: string }>("GET", `/documents/${documentId}/sections/${id}`)).text

/** Somebody who has the text of a section open to be written in. */
async function writer(title: string) {
  const document = await admin.create(title, "## Goals\n\nOne goal.\n")
  const goals = sectionId(document, "Goals")
  const reader = await Reader.open(browser)
  await reader.signIn(ann, `/d/${document.slug}`)
  const field = await reader.write(goals)
  await field.press("Control+End")
  const { page } = reader
  const saved = async () => {
    await expect.poll(() => textOf(document, goals)).toContain(words)
    await page.getByText("Saved", { exact: true }).waitFor()
  }
  return { document, goals, reader, page, field, saved, banner: page.locator(".banner") }
}

test("a blocked document says so, can be written in, and goes on when the block is lifted", async () => {
  const { document, reader, page, saved, banner } = await writer("Blocked")
  const other = await Reader.open(browser)
  await other.signIn(vera, `/d/${document.slug}`)
  await Promise.all([reader.live(), other.live()])
  await admin.call("PUT", `/documents/${document.documentId}/block`, { reason: "it grows" })
  const why = "an operator has blocked this document: it grows. Trying again…"
  for (const each of [reader, other]) await each.page.getByText(why).waitFor()
  await page.keyboard.type(words)
  await banner.getByText("Not saved yet: what you wrote in Goals. It is kept in this browser until the server has it.").waitFor()
  await admin.call("DELETE", `/documents/${document.documentId}/block`)
  await saved()
  for (const each of [reader, other]) await each.live()
  await other.page.locator("article").getByText(words).waitFor()
  await Promise.all([reader.close(), other.close()])
})

test("in a deleted document nobody goes on writing, and what was written is in it when it is restored", async () => {
  const { document, reader, page, field, saved, banner } = await writer("Deleted")
  const release = await holdReplica(page)
  await page.keyboard.type(words)
  await admin.call("DELETE", `/documents/${document.slug}`)
  await page.getByText("This document was deleted.").waitFor()
  await field.waitFor({ state: "detached" })
  await banner.getByText("Not saved yet: what you wrote in Goals.").waitFor()
  expect(await banner.innerText()).not.toContain("Trying again")
  await release()
  await page.locator("article").getByText(words).waitFor()
  await expect.poll(() => page.workers().length, { message: "the thread ends when all is kept" }).toBe(0)
  await page.getByRole("button", { name: "Restore" }).click()
  await saved()
  await reader.close()
})

test("where the browser has no room, the page says that nothing is kept, and when there is room again it is", async () => {
  const { reader, page, saved, banner } = await writer("No room")
  const room = (there: boolean) =>
    page.workers().at(-1)!.evaluate((there) => {
      const changed = IDBObjectStore.prototype as IDBObjectStore & { stockPut?: IDBObjectStore["put"] }
      const stockPut = (changed.stockPut ??= changed.put)
      changed.put = function (...args) {
        const request = stockPut.apply(this, args)
        if (!there) this.transaction.abort()
        return request
      }
    }, there)
  await reader.live()
  await room(false)
  await page.context().setOffline(true)
  await page.keyboard.type(words)
  await page.getByRole("alert").getByText("Not saved yet: what you wrote in Goals. This browser has no room to keep it").waitFor()
  await room(true)
  await banner.getByText("It is kept in this browser until the server has it.").waitFor()
  await page.context().setOffline(false)
  await saved()
  await reader.close()
})

test("what an earlier page could not save is called unsaved, and asked about, until it is saved", async () => {
  const { reader, page, saved, banner } = await writer("Again without a network")
  await reader.live()
  await page.evaluate(async () => void (await navigator.serviceWorker.ready))
  await page.context().setOffline(true)
  await page.keyboard.insertText(words)
  await banner.getByText("Not saved yet: what you wrote in Goals.").waitFor()
  await expect.poll(() => keepsWords(page, words)).toBe(true)
  await reload(page)
  await page.locator("article").getByText(words).waitFor()
  await banner.getByText("Not saved yet: what you wrote here before.").waitFor()
  await page.locator("article").getByText(words).click()
  await closeAndStay(page)
  await page.context().setOffline(false)
  await saved()
  await reader.close()
})

/** Loads the page again although it asks. */
async function reload(page: Page): Promise<void> {
  page.once("dialog", (dialog) => void dialog.accept())
  await page.reload()
}
