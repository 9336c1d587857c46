import type { Browser } from "playwright-core"
import { afterAll, beforeAll, expect, test } from "vitest"
import { admin, caller, launch, Reader, sectionId, serverUrl, type Caller } from "./world"

const markdown = "# Plan\n\n## Goals\n\nShip it soon.\n\n## Risks\n\nNone known.\n"

let browser: Browser
let alpha: Caller
let beta: Caller
let ann: Caller

beforeAll(async () => {
  browser = await launch()
  alpha = await caller("agent-alpha", "editor")
  beta = await caller("agent-beta", "editor")
  ann = await caller("ann", "editor")
})
afterAll(() => browser.close())

test("people who have left, and those who never came, are still drawn as people", async () => {
  const tag = crypto.randomUUID().slice(0, 8)
  const petra = await caller(`petra-${tag}`, "editor", "person")
  const wim = await caller(`wim-${tag}`, "editor")
  const document = await petra.create("Left alone", markdown)
  const visitor = await Reader.open(browser)
  await visitor.signIn(wim) // at the page: of a key that said nothing it is known from now on
  await visitor.close()
  for (const who of [wim, alpha]) await who.write(document.slug, sectionId(document, "Goals"), (text) => `${text}By ${who.agent}.\n`)

  const reader = await Reader.open(browser)
  const { page } = reader
  await reader.signIn(ann, `/d/${document.slug}`)
  await reader.live()
  const shapeOf = (name: string) =>
    page.locator("aside.log .author", { hasText: name }).first().locator(".initials").evaluate((badge) => getComputedStyle(badge).borderRadius)
  for (const name of [petra.agent, wim.agent]) await expect.poll(() => shapeOf(name), { message: name }).toBe("50%")
  expect(await shapeOf("agent-alpha")).toBe("25%")
  await page.getByRole("link", { name: "Cowrite: all documents" }).click()
  await page.locator("main .author", { hasText: petra.agent }).first().locator(".initials.person").waitFor()
  await reader.close()
})

test("repeated edits are one entry, and the log is filtered by author, section and kind", async () => {
  const document = await admin.create("Filtered", markdown)
  const [goals, risks] = [sectionId(document, "Goals"), sectionId(document, "Risks")]
  for (let i = 0; i < 4; i++) await alpha.write(document.slug, goals, (text) => `${text}Line ${i}.\n`)
  await beta.write(document.slug, risks, (text) => `${text}One.\n`)
  await beta.lease(document.slug, risks, 120, "counting them")
  await alpha.call("POST", `/documents/${document.slug}/events`, { text: "Who counts?" })
  const reader = await Reader.open(browser)
  const { page } = reader
  await reader.signIn(ann, `/d/${document.slug}`)
  await reader.live()

  const types = () => page.locator("aside.log li[data-type]").evaluateAll((items) => items.map((item) => item.getAttribute("data-type")))
  await expect.poll(types).toEqual(["message.posted", "section.leased", "section.edited", "section.edited", "document.created"])
  const folded = page.locator("li[data-type]", { hasText: "agent-alpha wrote in Goals" })
  await folded.getByText("4 times").waitFor()
  await folded.locator("summary").click()
  expect(await folded.locator("time:visible").count()).toBe(4)

  const choose = (label: string, option: string) => page.getByLabel(label).selectOption({ label: option })
  await choose("Of whom", "agent-beta")
  await expect.poll(types).toEqual(["section.leased", "section.edited"])
  await choose("Of which kind", "Writing")
  await expect.poll(types).toEqual(["section.edited"])
  await choose("In which section", "Goals")
  await page.getByText("Nothing of that among the events shown.").waitFor()
  await choose("Of whom", "Anyone")
  await expect.poll(types).toEqual(["section.edited"])

  // What comes in later is filtered and folded too.
  await beta.write(document.slug, risks, (text) => `${text}Two.\n`)
  await alpha.write(document.slug, goals, (text) => `${text}Last line.\n`)
  await folded.getByText("5 times").waitFor()
  expect(await types()).toEqual(["section.edited"])
  await reader.close()
})

test("the whole log is verified in the page, whatever was written into it, and a forgery is found", async () => {
  const document = await admin.create("Verified <b>&amp;</b> \u2028 é 👩‍👧", markdown)
  await alpha.call("POST", `/documents/${document.slug}/events`, { text: "<i> & \u2029 \\ \" é 👩‍👧", number: 1.5e300, deep: [{ a: "]}" }], "k<": null })
  for (let i = 0; i < 3; i++) await beta.write(document.slug, sectionId(document, "Risks"), (text) => `${text}Risk ${i}.\n`)
  const reader = await Reader.open(browser)
  const { page } = reader
  await reader.signIn(ann, `/d/${document.slug}`)
  await reader.live()
  await page.getByRole("button", { name: "Verify" }).click()
  await page.getByText("Log verified, 5 events").waitFor()

  await page.route(`${serverUrl}/api/v1/documents/*/events?since=0&limit=1000`, async (route) => {
    const response = await route.fetch()
    await route.fulfill({ response, body: (await response.text()).replace('"agent-beta"', '"agent-gamma"') })
  })
  await page.getByRole("button", { name: "Again" }).click()
  await page.getByText("Log broken: Event 3 is not what was logged, or the one before it is not.").waitFor()
  await reader.close()
})

test("where two changed the same words, a mark at the section shows both authors and both texts until it is looked at", async () => {
  const document = await admin.create("Overlap", markdown)
  const goals = sectionId(document, "Goals")
  const reader = await Reader.open(browser)
  const { page } = reader
  await reader.signIn(ann, `/d/${document.slug}`)
  await reader.live()

  const { text, version } = await alpha.section(document.slug, goals)
  const path = `/documents/${document.slug}/sections/${goals}`
  await alpha.call("PUT", path, { text: text.replace("soon", "in May"), base: version })
  await beta.call("PUT", path, { text: text.replace("soon", "in June"), base: version })

  const mark = reader.section(goals).locator(".overlap")
  await mark.getByText("changed the same words here").waitFor()
  const shown = (await mark.innerText()).replace(/\s+/g, " ")
  expect(shown).toMatch(/agent-beta and \S* ?agent-alpha/)
  expect(shown).toMatch(/It said soon \S+ ?agent-alpha in May \S+ ?agent-beta in June/)
  await page.locator('li[data-type="section.overlap"]', { hasText: "changed the same words in Goals" }).waitFor()
  await mark.getByRole("button", { name: "Looked at" }).click()
  await mark.waitFor({ state: "detached" })
  await page.reload()
  await reader.live()
  await page.locator('li[data-type="section.overlap"]').waitFor()
  expect(await mark.count()).toBe(0)
  await reader.close()
})
