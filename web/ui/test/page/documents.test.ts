import { readFile } from "node:fs/promises"
import type { Browser } from "playwright-core"
import { afterAll, beforeAll, expect, test } from "vitest"
import type { Document, DocumentRef, Leases } from "../../src/lib/wire"
import { admin, caller, launch, Reader, replica, sectionId, serverUrl, type Caller } from "./world"

let browser: Browser
let ann: Caller

beforeAll(async () => {
  browser = await launch()
  ann = await caller("ann", "editor")
})
afterAll(() => browser.close())

test("a document gets another title and address, and the former address leads to it", async () => {
  const document = await admin.create("Working title", "# Part\n")
  const reader = await Reader.open(browser)
  const { page } = reader
  await reader.signIn(ann, `/d/${document.slug}`)
  await page.getByRole("button", { name: "Rename" }).click()
  await page.getByRole("textbox", { name: "Title" }).fill("Final title")
  await page.getByRole("textbox", { name: "Address" }).fill("Not an address")
  await page.getByRole("button", { name: "Save" }).click()
  await page.getByRole("alert").waitFor()
  const slug = `final-${document.slug}`
  await page.getByRole("textbox", { name: "Address" }).fill(slug)
  await page.getByRole("button", { name: "Save" }).click()
  await page.waitForURL(`${serverUrl}/d/${slug}`)
  await page.getByRole("heading", { level: 1, name: "Final title" }).first().waitFor()
  await page.goto(`${serverUrl}/d/${document.slug}`)
  await page.waitForURL(`${serverUrl}/d/${slug}`)
  await reader.close()
})

test("the export has the bytes of the import", async () => {
  const markdown = "---\ntitle: x\n---\n\n# Écrit\r\n\r\nTwo  \r\nlines 👩‍👩‍👧.\n\n\n## Part\nno end of line"
  const document = await admin.create("Bytes", markdown)
  const reader = await Reader.open(browser)
  const { page } = reader
  await reader.signIn(ann, `/d/${document.slug}`)
  const downloading = page.waitForEvent("download")
  await page.getByRole("button", { name: "Export" }).click()
  const download = await downloading
  expect(download.suggestedFilename()).toBe(`${document.slug}.md`)
  expect(await readFile(await download.path(), "utf8")).toBe(markdown)
  await reader.close()
})

test("a share link opens the one document for reading, and ends when its maker said", async () => {
  const document = await admin.create("Shared", "# Shared part\n")
  const reader = await Reader.open(browser, { viewport: { width: 1360, height: 900 }, permissions: ["clipboard-read", "clipboard-write"] })
  const { page } = reader
  await reader.signIn(ann, `/d/${document.slug}`)
  await page.getByRole("button", { name: "Share", exact: true }).click()
  await page.getByLabel("The link ends after").selectOption("1 hour")
  await page.getByRole("button", { name: "Make the link and copy it" }).click()
  await page.getByText("The link is copied.").first().waitFor()
  const url = await page.getByLabel("Link", { exact: true }).inputValue()
  expect(await page.evaluate(() => navigator.clipboard.readText())).toBe(url)

  const { keys } = await admin.call<{ keys: { share?: string; expiresAt?: string }[] }>("GET", "/keys")
  const ends = keys.filter((key) => key.share === document.slug).map((key) => Date.parse(key.expiresAt!))
  expect(ends).toHaveLength(1)
  expect(Math.abs(ends[0]! - Date.now() - 3_600_000)).toBeLessThan(120_000)

  const guest = await Reader.open(browser)
  await guest.page.goto(serverUrl + new URL(url).pathname + new URL(url).search)
  await guest.live()
  await guest.page.getByRole("heading", { name: "Shared part" }).waitFor()
  expect(guest.page.url()).toBe(`${serverUrl}/d/${document.slug}`)
  expect(await guest.page.getByRole("button", { name: "Add a section" }).count()).toBe(0)

  await page.getByRole("button", { name: "End it now" }).click()
  await page.getByRole("button", { name: "Make the link and copy it" }).waitFor()
  await guest.page.getByText("no longer valid").first().waitFor()
  const { events } = await admin.call<{ events: { event_type: string; actor_id: string }[] }>("GET", `/documents/${document.slug}/events`)
  expect(events.slice(-2)).toMatchObject([
    { event_type: "document.shared", actor_id: "ann" },
    { event_type: "document.unshared", actor_id: "ann" },
  ])
  await guest.close()
  await reader.close()
})

test("deleting says what it does, and sends away those who read", async () => {
  const document = await admin.create("Doomed", "# Part\n")
  await ann.lease(document.slug, sectionId(document, "Part"), 120)
  const bystander = await Reader.open(browser)
  await bystander.signIn(await caller("vera", "viewer"), `/d/${document.slug}`)
  await bystander.live()
  const reader = await Reader.open(browser)
  const { page } = reader
  await reader.signIn(ann, `/d/${document.slug}`)
  await reader.section(sectionId(document, "Part")).locator(".badge").waitFor()
  await page.getByRole("button", { name: "Delete", exact: true }).click()
  await page.getByRole("heading", { name: "Delete “Doomed”?" }).waitFor()
  await page.getByText("The lease that is live in it ends.").waitFor()
  await page.getByRole("button", { name: "Keep it" }).click()
  expect((await ann.call<Document>("GET", `/documents/${document.slug}`)).title).toBe("Doomed")

  await page.getByRole("button", { name: "Delete", exact: true }).click()
  await page.getByRole("dialog", { name: "Delete “Doomed”?" }).getByRole("button", { name: "Delete" }).click()
  await page.getByRole("heading", { name: "Documents", exact: true }).waitFor()
  expect(await page.locator(`a[href="/d/${document.slug}"]`).count()).toBe(0)
  await bystander.page.getByText("This document was deleted.").waitFor()
  expect(await bystander.page.getByRole("button", { name: "Restore" }).count(), "a viewer may not restore it").toBe(0)
  await page.getByText("Deleted “Doomed”.").waitFor()
  await page.getByRole("button", { name: "Undo" }).click()
  await page.waitForURL(`${serverUrl}/d/${document.slug}`)
  await page.getByRole("heading", { name: "Part" }).waitFor()
  await reader.live()
  expect((await ann.call<Leases>("GET", `/documents/${document.slug}/leases`)).leases, "its lease stays ended").toEqual([])
  await page.locator('li[data-type="document.restored"]').waitFor({ state: "attached" })
  await bystander.close()
  await reader.close()
})

test("what is deleted is listed with who did it, and comes back by a click, where one had it open too", async () => {
  const ref = `gone-${crypto.randomUUID().slice(0, 8)}`
  const document = await admin.call<Document & { slug: DocumentRef }>("POST", "/documents", { slug: ref, title: `The ${ref}`, markdown: "# Kept\n" })
  const witness = await Reader.open(browser)
  await witness.signIn(await caller("wim", "editor"), `/d/${ref}`)
  await witness.live()
  const reader = await Reader.open(browser)
  const { page } = reader
  await reader.signIn(ann)
  await admin.call("DELETE", `/documents/${ref}`)
  await page.getByRole("button", { name: "Deleted", exact: true }).click()
  const row = page.getByRole("listitem").filter({ hasText: `The ${ref}` })
  await row.getByText("deleted now by").or(row.getByText(/deleted .* ago by/)).waitFor()
  await row.getByText("admin", { exact: true }).waitFor()
  await page.getByRole("button", { name: `Restore The ${ref}` }).press("Enter")
  await page.getByText(`“The ${ref}” is back.`).waitFor()
  expect(await row.count()).toBe(0)
  await page.getByRole("link", { name: "Open it" }).and(page.locator(":focus")).press("Enter")
  await page.getByRole("heading", { name: "Kept" }).waitFor()

  await witness.page.getByText("This document was deleted.").waitFor()
  await witness.page.getByRole("button", { name: "Restore", exact: true }).click() // it is back already
  await witness.live()
  await ann.write(ref as DocumentRef, sectionId(document, "Kept"), (text) => `${text}Read on both.\n`)
  for (const one of [reader, witness]) await one.page.getByText("Read on both.").waitFor()

  await admin.call("DELETE", `/documents/${ref}`)
  await witness.page.getByText("This document was deleted.").waitFor()
  await witness.page.reload()
  await witness.page.getByRole("button", { name: "Restore", exact: true }).click()
  await witness.page.getByText("Read on both.").waitFor()
  await witness.close()
  await reader.close()

  const vera = await Reader.open(browser)
  await vera.signIn(await caller("vera", "viewer"))
  await vera.page.getByRole("heading", { name: "Documents" }).waitFor()
  expect(await vera.page.getByRole("button", { name: "Deleted", exact: true }).count()).toBe(0)
  await vera.close()
})

test("an administrator deletes for good what was deleted, after a question", async () => {
  const ref = `gone-${crypto.randomUUID().slice(0, 8)}`
  const { documentId } = await admin.call<{ documentId: string }>("POST", "/documents", { slug: ref, title: `The ${ref}` })
  await admin.call("DELETE", `/documents/${ref}`)
  const editor = await Reader.open(browser)
  await editor.signIn(ann)
  await editor.page.getByRole("button", { name: "Deleted", exact: true }).click()
  await editor.page.getByRole("button", { name: `Restore The ${ref}` }).waitFor()
  expect(await editor.page.getByRole("button", { name: "for good" }).count(), "an editor may not").toBe(0)
  await editor.close()

  const reader = await Reader.open(browser)
  const { page } = reader
  await reader.signIn(admin)
  await page.getByRole("button", { name: "Deleted", exact: true }).click()
  const ask = page.getByRole("button", { name: `Delete The ${ref} for good` })
  const dialog = page.getByRole("dialog", { name: `Delete “The ${ref}” for good?` })
  await ask.click()
  await dialog.getByRole("button", { name: "Keep it" }).click()
  await dialog.waitFor({ state: "hidden" })
  await ask.click()
  await dialog.getByRole("button", { name: "Delete for good" }).click()
  await ask.waitFor({ state: "detached" })
  await expect(admin.call("GET", `/documents/${documentId}`)).rejects.toThrow("for good")
  await admin.call("POST", "/documents", { slug: ref })
  await reader.close()
})

test("a search looks through all documents, those further down too", async () => {
  const tag = crypto.randomUUID()
  const wanted = await admin.create(`The needle of Zürich ${tag}`, "")
  for (let i = 0; i < 55; i++) await admin.create(`Hay ${i}`, "")
  const reader = await Reader.open(browser)
  const { page } = reader
  await reader.signIn(ann)
  await page.getByLabel("Search the documents").fill(`zürich ${tag} NEEDLE`)
  await page.locator(`a[href="/d/${wanted.slug}"]`).waitFor()
  await expect.poll(() => page.locator("main li").count()).toBe(1)
  await page.getByLabel("Search the documents").fill("nothing is called this")
  await page.getByText("No document is called that.").waitFor()
  await reader.close()
})

test("the list says who has a document open, people in another shape than agents, and tells when they leave", async () => {
  const document = await admin.create("Lively", "# Lively\n")
  const agent = await replica(await caller("agent-present", "editor"), document)
  const person = await Reader.open(browser)
  await person.signIn(await caller("vera", "viewer"), `/d/${document.slug}`)
  await person.live()
  const reader = await Reader.open(browser)
  const { page } = reader
  await reader.signIn(ann)
  const row = page.getByRole("listitem").filter({ has: page.locator(`a[href="/d/${document.slug}"]`) })
  await row.getByText("In it now: agent-present (agent), vera (person)").waitFor({ state: "attached" })
  const shapes = await row.locator(".here .initials").evaluateAll((badges) => badges.map((badge) => getComputedStyle(badge).borderRadius))
  expect(new Set(shapes).size, `two shapes: ${shapes.join(", ")}`).toBe(2)
  await person.close()
  await row.getByText("In it now: agent-present (agent)", { exact: true }).waitFor({ state: "attached" })
  await agent.close()
  await reader.close()
})
