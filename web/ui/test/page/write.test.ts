import type { Browser } from "playwright-core"
import { afterAll, beforeAll, expect, test } from "vitest"
import { admin, caller, launch, Reader, type Caller } from "./world"

let browser: Browser
let ann: Caller

beforeAll(async () => {
  browser = await launch()
  ann = await caller("ann", "editor")
})
afterAll(() => browser.close())

test("a person makes a document from a file, and it opens", async () => {
  const reader = await Reader.open(browser)
  const { page } = reader
  await reader.signIn(ann)
  await page.getByRole("button", { name: "New document" }).click()
  await page.getByLabel("choose one").setInputFiles({ name: "notes.md", mimeType: "text/markdown", buffer: Buffer.from("# Brought in\n\nFrom a file.\n\n## Part\n\nMore.\n") })
  await expect.poll(() => page.getByLabel("Text in Markdown").inputValue()).toContain("From a file.")
  await page.getByRole("button", { name: "Create" }).click()
  await page.getByText("From a file.").waitFor()
  expect(await reader.headings()).toEqual(["Brought in", "Part"])
  await page.getByRole("link", { name: "Cowrite: all documents" }).click()
  await page.getByRole("link", { name: "Brought in" }).first().waitFor()
  await reader.close()
})

test("a file that is no text is refused in words", async () => {
  const reader = await Reader.open(browser)
  const { page } = reader
  await reader.signIn(ann)
  await page.getByRole("button", { name: "New document" }).click()
  await page.getByLabel("choose one").setInputFiles({ name: "photo.jpg", mimeType: "image/jpeg", buffer: Buffer.from([0xff, 0xd8, 0xff]) })
  await page.getByText("photo.jpg is not a text file in UTF-8.").waitFor()
  await reader.close()
})

test("a person adds a section to an empty document", async () => {
  const document = await admin.create("Empty", "")
  const reader = await Reader.open(browser)
  const { page } = reader
  await reader.signIn(ann, `/d/${document.slug}`)
  await reader.live()
  await page.getByRole("button", { name: "Add a section" }).click()
  await page.getByLabel("New section, in Markdown").fill("## First\n\nWords.")
  await page.getByRole("button", { name: "Add", exact: true }).click()
  await page.getByText("Words.").waitFor()
  expect(await reader.headings()).toContain("First")
  await reader.close()
})

test("a long list loads more, and keeps it when it is read again", async () => {
  const made: string[] = []
  for (let i = 0; i < 60; i++) made.push((await ann.create(`Listed ${i}`, "")).slug)
  const reader = await Reader.open(browser)
  const { page } = reader
  await reader.signIn(ann)
  const first = page.locator(`a[href="/d/${made[0]}"]`)
  await page.locator(`a[href="/d/${made.at(-1)}"]`).waitFor()
  expect(await first.count()).toBe(0)
  await page.getByRole("button", { name: "Load more" }).click()
  await first.waitFor()
  const before = await page.locator("main li").count()
  const added = await ann.create("Listed last", "")
  await page.evaluate(() => globalThis.document.dispatchEvent(new Event("visibilitychange")))
  await page.locator(`a[href="/d/${added.slug}"]`).waitFor()
  expect(await page.locator("main li").count()).toBe(before + 1)
  await reader.close()
})
