import type { Browser } from "playwright-core"
import { afterAll, beforeAll, expect, test } from "vitest"
import { admin, caller, launch, Reader, sectionId, type Caller } from "./world"

const markdown = "# Draft\n\n## Goals\n\nOne goal.\n\n## Risks\n\nNone known.\n"

let browser: Browser
let alpha: Caller
let ann: Caller

beforeAll(async () => {
  browser = await launch()
  alpha = await caller("agent-alpha", "editor")
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

test("a person takes a lease, writes while an agent writes too, and both texts stand", async () => {
  const document = await admin.create("Draft", markdown)
  const goals = sectionId(document, "Goals")
  const reader = await Reader.open(browser)
  const { page } = reader
  await reader.signIn(ann, `/d/${document.slug}`)
  await reader.live()

  await reader.section(goals).hover()
  await page.getByRole("button", { name: "Take the lease on Goals" }).click()
  await reader.section(goals).getByText("(you) holds the lease").waitFor()

  await page.getByRole("button", { name: "Write in Goals" }).click()
  const text = page.getByLabel("Text of Goals, in Markdown")
  await text.waitFor()
  await text.fill((await text.inputValue()).replace("One goal.", "One goal.\n\nAnn's goal.\n"))
  await alpha.write(document.slug, goals, (now) => now.replace("One goal.", "One agreed goal."))
  await page.getByText("Others wrote here since you began.").waitFor()
  await text.press("Control+Enter")
  await page.getByText("Saved, and merged with what others wrote meanwhile.").waitFor()
  await expect.poll(() => reader.section(goals).locator(".prose").innerText()).toMatch(/One agreed goal\.\s+Ann's goal\./)
  await page.locator('li[data-type="section.lease_overridden"]', { hasText: "agent-alpha wrote in Goals while" }).waitFor()

  await reader.section(goals).hover()
  await page.getByRole("button", { name: "Extend the lease on Goals" }).click()
  await page.locator('li[data-type="section.lease_renewed"]').first().waitFor()
  await page.getByRole("button", { name: "Release the lease on Goals" }).click()
  await reader.section(goals).locator(".badge").waitFor({ state: "detached" })
  await reader.close()
})

test("writing into somebody's section is advised, not stopped", async () => {
  const document = await admin.create("Advised", markdown)
  const risks = sectionId(document, "Risks")
  await alpha.lease(document.slug, risks, 120, "listing them")
  const reader = await Reader.open(browser)
  const { page } = reader
  await reader.signIn(ann, `/d/${document.slug}`)
  await reader.live()

  await reader.section(risks).hover()
  await page.getByRole("button", { name: "Take the lease on Risks" }).click()
  await page.getByText(/agent-alpha holds the lease for another [12]:\d\d: listing them/).waitFor()

  await page.getByRole("button", { name: "Write in Risks" }).click()
  const text = page.getByLabel("Text of Risks, in Markdown")
  await text.fill((await text.inputValue()).replace("None known.", "One known."))
  await page.getByRole("button", { name: "Save" }).click()
  await page.getByText(/Saved\. agent-alpha holds the lease for another/).waitFor()
  await reader.section(risks).getByText("One known.").waitFor()
  await reader.close()
})

test("a draft survives its section being moved, and Escape asks before it is lost", async () => {
  const document = await admin.create("Moved", markdown)
  const goals = sectionId(document, "Goals")
  const reader = await Reader.open(browser)
  const { page } = reader
  await reader.signIn(ann, `/d/${document.slug}`)
  await reader.live()
  await reader.section(goals).hover()
  await page.getByRole("button", { name: "Write in Goals" }).click()
  const text = page.getByLabel("Text of Goals, in Markdown")
  await text.fill("## Goals\n\nA draft.\n")
  await alpha.call("POST", `/documents/${document.slug}/sections/${goals}/move`, { after: "" })
  await expect.poll(() => reader.headings()).toEqual(["Goals", "Draft", "Risks"])
  expect(await text.inputValue()).toContain("A draft.")

  const asked = new Promise<string>((resolve) =>
    page.once("dialog", (dialog) => {
      resolve(dialog.message())
      void dialog.dismiss()
    }),
  )
  await text.press("Escape")
  expect(await asked).toContain("Leave without saving")
  expect(await text.inputValue()).toContain("A draft.")
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

test("a section with CRLF keeps it where nothing was typed", async () => {
  const document = await admin.create("CRLF", "# Draft\r\n\r\nOne.\r\nTwo.\r\n")
  const draft = sectionId(document, "Draft")
  const reader = await Reader.open(browser)
  const { page } = reader
  await reader.signIn(ann, `/d/${document.slug}`)
  await reader.live()
  await reader.section(draft).hover()
  await page.getByRole("button", { name: "Write in Draft" }).click()
  const text = page.getByLabel("Text of Draft, in Markdown")
  await text.fill((await text.inputValue()).replace("Two.", "Two.\nThree."))
  await text.press("Control+Enter")
  await page.getByText("Saved.").waitFor()
  expect((await ann.section(document.slug, draft)).text).toBe("# Draft\r\n\r\nOne.\r\nTwo.\r\nThree.\r\n")
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
