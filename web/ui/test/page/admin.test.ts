import type { Browser } from "playwright-core"
import { afterAll, beforeAll, expect, test } from "vitest"
import { admin, caller, Caller, launch, Reader, replica, serverUrl } from "./world"

let browser: Browser
beforeAll(async () => void (browser = await launch()))
afterAll(() => browser.close())

const tag = crypto.randomUUID().slice(0, 8)

test("a key is made, shown once and copied, works, and is revoked after a question", async () => {
  const reader = await Reader.open(browser, { viewport: { width: 1360, height: 900 }, permissions: ["clipboard-read", "clipboard-write"] })
  const { page } = reader
  await reader.signIn(admin, "/admin")
  await page.getByRole("button", { name: "New key" }).click()
  const dialog = page.getByRole("dialog")
  await dialog.getByLabel("For whom").fill(`Not a name`)
  await dialog.getByRole("button", { name: "Make the key" }).click()
  await dialog.getByRole("alert").waitFor()
  await dialog.getByLabel("For whom").fill(`made-${tag}`)
  await dialog.getByRole("radio", { name: "A person" }).check()
  await dialog.getByLabel("Role").selectOption("viewer")
  await dialog.getByLabel("Ends").selectOption("After 7 days")
  await dialog.getByLabel("For whom").press("Enter")
  await dialog.getByRole("heading", { name: `The key of made-${tag}` }).waitFor()
  const secret = await dialog.getByLabel("Key", { exact: true }).inputValue()
  await page.keyboard.press("Enter") // the button that copies has the focus
  await dialog.getByText("The key is copied.").waitFor()
  expect(await page.evaluate(() => navigator.clipboard.readText())).toBe(secret)
  await dialog.getByRole("button", { name: "Done" }).click()
  expect(await page.locator(`input[value="${secret}"]`).count(), "the secret is gone from the page").toBe(0)

  const made = new Caller(secret)
  expect(await made.call("GET", "/session")).toMatchObject({ agent: `made-${tag}`, role: "viewer" })
  const row = page.getByRole("row", { name: new RegExp(`made-${tag} person viewer all`) })
  await row.getByRole("button", { name: `Revoke the key of made-${tag}` }).click()
  await dialog.getByRole("button", { name: "Keep it" }).click()
  await made.call("GET", "/session")
  await row.getByRole("button", { name: `Revoke the key of made-${tag}` }).click()
  await dialog.getByRole("button", { name: "Revoke" }).click()
  await row.waitFor({ state: "detached" })
  await expect(made.call("GET", "/session")).rejects.toThrow("KEY_REVOKED")
  await page.getByRole("button", { name: /Ended and revoked/ }).click()
  await page.getByRole("row", { name: new RegExp(`made-${tag} person viewer all .* revoked`) }).waitFor()
  await reader.close()
})

test("agents, sockets and documents by size are told, and a document is taken out of service and back", async () => {
  const writer = await caller(`writer-${tag}`, "editor")
  const document = await writer.create(`Heavy ${tag}`, `# Heavy\n\n${"weight ".repeat(20_000)}\n`)
  await writer.coordinate("lease", `lock:${tag}`)
  const open = await replica(writer, document)
  const reader = await Reader.open(browser)
  const { page } = reader
  await reader.signIn(admin, "/admin")

  await page.getByRole("link", { name: "Agents", exact: true }).click()
  await page.getByRole("row", { name: new RegExp(`writer-${tag} 50 1 0 1 0 0 0 connected`) }).waitFor()
  await page.getByRole("link", { name: "Sockets", exact: true }).click()
  await page.getByRole("row", { name: new RegExp(`writer-${tag} replica Heavy ${tag}`) }).waitFor()
  await page.getByRole("link", { name: "Documents", exact: true }).last().click()
  await page.getByRole("row", { name: new RegExp(`Heavy ${tag} .*B`) }).waitFor()
  await open.close()

  await page.getByRole("button", { name: `Block Heavy ${tag}` }).click()
  await page.getByLabel("Why").fill("it grows without end")
  await page.getByRole("dialog").getByRole("button", { name: "Block", exact: true }).click()
  await page.getByText("it grows without end").waitFor()
  await expect(writer.call("GET", `/documents/${document.slug}`)).rejects.toThrow("DOCUMENT_BLOCKED")
  await page.getByRole("button", { name: `Put Heavy ${tag} back into service` }).click()
  await page.getByText("it grows without end").waitFor({ state: "detached" })
  await writer.call("GET", `/documents/${document.slug}`)
  await reader.close()
})

test("who is no administrator is told so, and asks for nothing", async () => {
  const reader = await Reader.open(browser)
  const { page } = reader
  const asked: string[] = []
  page.on("request", (request) => asked.push(new URL(request.url()).pathname))
  await reader.signIn(await caller(`editor-${tag}`, "editor"), "/admin")
  await page.getByText("This page is for administrators of all documents.").waitFor()
  await page.getByText(`You are signed in as editor-${tag}, editor.`).waitFor()
  expect(await page.getByRole("navigation", { name: "Pages" }).getByText("Admin").count()).toBe(0)
  expect(asked.filter((path) => /\/(keys|sockets|usage|blocks|agents)/.test(path))).toEqual([])
  expect(page.url()).toBe(`${serverUrl}/admin`)
  await reader.close()
})
