// Tabs of one browser, which share one session.

import type { Browser, BrowserContext, Dialog, Page } from "playwright-core"
import { afterAll, beforeAll, expect, test } from "vitest"
import { keptChunks } from "./kept"
import { admin, Caller, caller, launch, Reader, sectionId, serverUrl } from "./world"

let browser: Browser
let ann: Caller

beforeAll(async () => {
  browser = await launch()
  ann = await caller("ann", "editor")
})
afterAll(() => browser.close())

const who = (page: Page) => page.locator(".who .name").innerText()

/** Somebody who writes in a section, and a second tab of the same browser. */
async function twoTabs(title: string, signIn = ann) {
  const document = await admin.create(title, "## Goals\n\nOne goal.\n")
  const goals = sectionId(document, "Goals")
  const reader = await Reader.open(browser)
  await reader.signIn(signIn, `/d/${document.slug}`)
  await (await reader.write(goals)).press("Control+End")
  const context = reader.page.context()
  return { document, goals, reader, one: reader.page, context, two: await context.newPage() }
}

const signInAs = (context: BrowserContext, { key }: Caller) => context.request.post(`${serverUrl}/api/v1/session`, { data: { key } })

test("who signs out in one tab is signed out in all, and none of them leaves anything behind", async () => {
  const { document, goals, reader, one, two } = await twoTabs("Signed out")
  await one.keyboard.type("Before.")
  await expect.poll(async () => (await admin.section(document.slug, goals)).text).toContain("Before.")
  await two.goto(serverUrl)
  await two.getByRole("button", { name: "Sign out" }).click()
  await two.getByText("You are signed out.").waitFor()
  await one.getByText("You signed out in another tab of this browser.").waitFor()
  expect(await one.getByRole("textbox", { name: "Text of" }).count()).toBe(0)
  await expect.poll(() => keptChunks(two)).toEqual([])
  expect(await two.evaluate(() => Object.keys(localStorage).filter((key) => key.startsWith("cowrite:") && key.endsWith(":ann")))).toEqual([])
  await reader.close()
})

test("when another signs in, no tab goes on in the name of the first", async () => {
  const bob = await caller("bob", "editor")
  const { document, reader, one, two, context } = await twoTabs("Signed in as another")
  await signInAs(context, bob)
  await two.goto(`${serverUrl}/d/${document.slug}`)
  await one.getByText("In another tab of this browser bob has signed in.").waitFor()
  expect(await one.getByRole("textbox", { name: "Text of" }).count()).toBe(0)
  await one.reload()
  await expect.poll(() => who(one)).toContain("bob")
  await reader.close()
})

test("who may read a document keeps their session when they follow a link to it", async () => {
  const { document, goals, reader, one, two } = await twoTabs("Shared with who may read it")
  await two.goto(await linkTo(document.slug))
  await two.getByRole("button", { name: "Write in Goals" }).waitFor({ state: "attached" })
  expect(await who(two)).toContain("ann")
  await one.keyboard.type("Still ann.")
  await expect.poll(async () => (await admin.section(document.slug, goals)).text).toContain("Still ann.")
  await reader.close()
})

test("who may not read a document is asked before a link's guest takes their place", async () => {
  const { key } = await admin.call<{ key: string }>("POST", "/keys", { agent: "carl", role: "editor", documents: "carls-*" })
  const { reader, one, two } = await twoTabs("Carls own", new Caller(key, "carl"))
  const secret = await admin.create("Secret", "# Secret\n\nShared words.\n")
  const follow = async (answer: (dialog: Dialog) => Promise<void>) => {
    const asked = two.waitForEvent("dialog")
    const going = two.goto(await linkTo(secret.slug))
    const dialog = await asked
    expect(dialog.message()).toContain("You are signed in as carl, who may not read this document.")
    await answer(dialog)
    await going
  }
  await follow((dialog) => dialog.dismiss())
  await two.getByRole("alert").waitFor()
  expect(await who(two)).toContain("carl")
  await one.getByRole("textbox", { name: "Text of Goals" }).waitFor()
  await follow((dialog) => dialog.accept())
  await two.getByText("Shared words.").waitFor()
  expect(await who(two)).toContain("guest-")
  await one.getByText(/In another tab of this browser guest-\S+ has signed in\./).waitFor()
  await reader.close()
})

async function linkTo(slug: string): Promise<string> {
  const { url } = await admin.call<{ url: string }>("POST", `/documents/${slug}/shares`, { expiresIn: 600 })
  const { pathname, search } = new URL(url)
  return serverUrl + pathname + search
}
