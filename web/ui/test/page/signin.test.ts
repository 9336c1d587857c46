import type { Browser } from "playwright-core"
import { afterAll, beforeAll, expect, test } from "vitest"
import { admin, caller, launch, Reader, serverUrl } from "./world"

let browser: Browser

beforeAll(async () => void (browser = await launch()))
afterAll(() => browser.close())

test("a wrong key is refused in words, the right one opens the list, and the cookie is remembered until sign-out", async () => {
  const vera = await caller("vera", "viewer")
  const document = await admin.create("Signed in", "# Signed in\n")
  const reader = await Reader.open(browser)
  const { page } = reader

  await page.goto(serverUrl)
  await page.getByLabel("Your key").fill("cw_nonsense")
  await page.getByRole("button", { name: "Sign in" }).click()
  await page.getByRole("alert").getByText("This key opens nothing here.").waitFor()

  await page.getByLabel("Your key").fill(vera.key)
  await page.keyboard.press("Enter")
  await page.getByRole("link", { name: document.title, exact: true }).waitFor()
  expect(await page.getByRole("button", { name: "New document" }).count(), "viewers make no documents").toBe(0)
  expect(await page.evaluate(() => globalThis.document.cookie), "no script can read the key").toBe("")

  await page.reload()
  await page.getByRole("link", { name: document.title, exact: true }).waitFor()

  await page.getByRole("button", { name: "Sign out" }).click()
  await page.getByText("You are signed out.").waitFor()
  await page.reload()
  await page.getByLabel("Your key").waitFor()
  await reader.close()
})

test("a share link opens its document for reading and leaves no key in the address", async () => {
  const document = await admin.create("Shared", "# Shared\n\nFor your eyes.\n")
  const other = await admin.create("Not shared", "# Not shared\n")
  const share = await admin.call<{ url: string }>("POST", `/documents/${document.slug}/shares`, { expiresIn: 600 })
  const reader = await Reader.open(browser)
  const { page } = reader

  await page.goto(share.url)
  await page.getByText("For your eyes.").waitFor()
  expect(page.url()).toBe(`${serverUrl}/d/${document.slug}`)
  expect(await page.getByRole("button", { name: "Write" }).count()).toBe(0)
  await reader.live()

  await page.goto(`${serverUrl}/d/${other.slug}`)
  await page.getByRole("alert").waitFor()
  await reader.close()
})

test("a share link that was taken back says so", async () => {
  const document = await admin.create("Withdrawn", "# Withdrawn\n")
  const share = await admin.call<{ id: string; url: string }>("POST", `/documents/${document.slug}/shares`, { expiresIn: 600 })
  await admin.call("DELETE", `/keys/${share.id}`)
  const reader = await Reader.open(browser)
  await reader.page.goto(share.url)
  await reader.page.getByText("This link is no longer valid.").waitFor()
  await reader.close()
})

test("a key that is revoked while the page is open signs the page out", async () => {
  const { id, key } = await admin.call<{ id: string; key: string }>("POST", "/keys", { agent: "leaver", role: "viewer" })
  const document = await admin.create("Left", "# Left\n")
  const reader = await Reader.open(browser)
  await reader.signIn({ key } as never, `/d/${document.slug}`)
  await reader.live()
  await admin.call("DELETE", `/keys/${id}`)
  await reader.page.getByText("Your key is no longer valid").waitFor()
  await reader.close()
})
