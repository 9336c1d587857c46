import type { Browser } from "playwright-core"
import { afterAll, beforeAll, expect, test } from "vitest"
import type { Document, DocumentRef } from "../../src/lib/wire"
import { admin, caller, launch, Reader, sectionId, type Caller } from "./world"

let browser: Browser
let alpha: Caller
let ann: Caller

beforeAll(async () => {
  browser = await launch()
  alpha = await caller("agent-alpha", "editor")
  ann = await caller("ann", "editor")
})
afterAll(() => browser.close())

async function open(title: string): Promise<{ reader: Reader; document: Document & { slug: DocumentRef } }> {
  const document = await admin.create(title, "# One\n\nFirst.\n\n## Two\n\nSecond.\n\n## Three\n\nThird.\n")
  const reader = await Reader.open(browser)
  await reader.signIn(ann, `/d/${document.slug}`)
  await reader.live()
  return { reader, document }
}

const orderOnServer = async (ref: DocumentRef) => (await ann.call<Document>("GET", `/documents/${ref}`)).sections.map((section) => section.heading)

test("a removed section is brought back by undo, with what an agent wrote into it meanwhile", async () => {
  const { reader, document } = await open("Undone")
  const { page } = reader
  const two = sectionId(document, "Two")
  await reader.section(two).hover()
  await page.getByRole("button", { name: "Remove Two" }).click()
  await page.getByText("Removed Two.").waitFor()
  await expect.poll(() => reader.headings()).toEqual(["One", "Three"])
  await alpha.write(document.slug, two, (text) => text.replace("Second.", "Second, by an agent."))
  await page.getByRole("button", { name: "Undo" }).click()
  await expect.poll(() => reader.headings()).toEqual(["One", "Two", "Three"])
  await reader.section(two).getByText("Second, by an agent.").waitFor()
  expect(await page.getByRole("button", { name: "Undo" }).count()).toBe(0)
  await reader.close()
})

test("a section that an agent removed stands in the list of removed ones, and is restored from there", async () => {
  const { reader, document } = await open("Restored")
  const { page } = reader
  await alpha.call("DELETE", `/documents/${document.slug}/sections/${sectionId(document, "Three")}`)
  await page.getByText("1 removed section").click()
  await page.getByRole("button", { name: "Restore Three" }).click()
  await expect.poll(() => reader.headings()).toEqual(["One", "Two", "Three"])
  expect(await page.getByText("1 removed section").count()).toBe(0)
  await reader.close()
})

test("a section is moved by its buttons, and the button keeps the focus", async () => {
  const { reader, document } = await open("Moved by button")
  const { page } = reader
  const up = page.getByRole("button", { name: "Move Three up" })
  await up.focus()
  await page.keyboard.press("Enter")
  await expect.poll(() => reader.headings()).toEqual(["One", "Three", "Two"])
  await expect.poll(() => up.evaluate((button) => button === globalThis.document.activeElement)).toBe(true)
  await page.keyboard.press("Enter")
  await expect.poll(() => reader.headings()).toEqual(["Three", "One", "Two"])
  await page.getByRole("button", { name: "Move Three down" }).press("Enter")
  await expect.poll(() => reader.headings()).toEqual(["One", "Three", "Two"])
  expect(await orderOnServer(document.slug)).toEqual(["One", "Three", "Two"])
  await reader.close()
})

test("a section is moved in the outline by keyboard and by drag", async () => {
  const { reader, document } = await open("Moved in the outline")
  const { page } = reader
  const outline = page.getByRole("navigation", { name: "Sections" })
  const link = (name: string) => outline.getByRole("link", { name, exact: true })
  await link("Two").focus()
  await page.keyboard.press("Alt+ArrowDown")
  await expect.poll(() => reader.headings()).toEqual(["One", "Three", "Two"])
  await expect.poll(() => link("Two").evaluate((element) => element === globalThis.document.activeElement)).toBe(true)

  const item = (name: string) => outline.getByRole("listitem").filter({ hasText: name })
  await item("Two").dragTo(item("One"), { targetPosition: { x: 20, y: 2 } })
  await expect.poll(() => reader.headings()).toEqual(["Two", "One", "Three"])
  await item("Two").dragTo(item("Three"), { targetPosition: { x: 20, y: 20 } })
  await expect.poll(() => reader.headings()).toEqual(["One", "Three", "Two"])
  expect(await orderOnServer(document.slug)).toEqual(["One", "Three", "Two"])
  await reader.close()
})

test("a viewer finds nothing to move or remove", async () => {
  const document = await admin.create("Only read", "# One\n\n## Two\n")
  const reader = await Reader.open(browser)
  await reader.signIn(await caller("vera", "viewer"), `/d/${document.slug}`)
  await reader.live()
  expect(await reader.page.getByRole("button", { name: /Move|Remove|Rename|Share|Delete/ }).count()).toBe(0)
  expect(await reader.page.locator('[draggable="true"]').count()).toBe(0)
  await reader.close()
})
