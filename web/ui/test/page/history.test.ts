import type { Browser } from "playwright-core"
import { afterAll, beforeAll, expect, test } from "vitest"
import type { Document, DocumentRef, LogEvent, SectionId } from "../../src/lib/wire"
import { admin, caller, launch, Reader, sectionId, type Caller } from "./world"

let browser: Browser
let alpha: Caller
let beta: Caller
let ann: Caller
let document: Document & { slug: DocumentRef }
let goals: SectionId

beforeAll(async () => {
  browser = await launch()
  alpha = await caller("agent-alpha", "editor")
  beta = await caller("agent-beta", "editor")
  ann = await caller("ann", "editor")
})
afterAll(() => browser.close())

async function openHistory(who = ann): Promise<Reader> {
  document = await admin.create("Told again", "# Plan\n\nOf 👩‍👩‍👧.\n\n## Goals\n\nOne goal.\n\n## Risks\n\nNone.\n")
  goals = sectionId(document, "Goals")
  await alpha.write(document.slug, goals, (text) => text.replace("One goal", "Two goals"))
  await beta.write(document.slug, sectionId(document, "Risks"), (text) => text.replace("None.", "One: 👩‍👩‍👧."))
  await beta.write(document.slug, goals, (text) => text.replace("Two goals", "Three goals"))
  const reader = await Reader.open(browser)
  await reader.signIn(who, `/d/${document.slug}`)
  await reader.live()
  await reader.page.getByRole("button", { name: "History", exact: true }).click()
  await reader.page.getByText("Version 4 of 4").waitFor()
  return reader
}

test("a scrubber goes through the versions with their authors, and yesterday's text is brought back", async () => {
  const reader = await openHistory()
  const { page } = reader
  const then = page.locator(".version")
  const slider = page.getByRole("slider", { name: "Version" })
  await then.getByText("Three goals.").waitFor()
  await slider.press("ArrowLeft")
  await slider.press("ArrowLeft")
  await page.getByText("Version 2 of 4").waitFor()
  expect(await slider.getAttribute("aria-valuetext")).toContain("agent-alpha wrote in Goals")
  await then.getByText("Two goals.").waitFor()
  await then.getByText("None.").waitFor()

  // What is written meanwhile moves nothing away from under the reader.
  await alpha.write(document.slug, goals, (text) => text.replace("Three goals", "Four goals"))
  await page.getByText("Version 2 of 5").waitFor()
  await page.getByRole("button", { name: "Bring back this text of Goals" }).click()
  await page.getByText("The section has this text again.").waitFor()
  expect((await ann.section(document.slug, goals)).text).toContain("Two goals.")
  await page.getByText("Version 2 of 6").waitFor()
  await slider.press("Home")
  await page.getByText("Version 1 of 6").waitFor()
  expect(await slider.getAttribute("aria-valuetext")).toContain("created the document")
  await then.getByText("One goal.").waitFor()

  await page.getByRole("button", { name: "Back to the text" }).click()
  await reader.section(goals).getByText("Two goals.").waitFor()
  await reader.section(sectionId(document, "Risks")).getByText("One: 👩‍👩‍👧.").waitFor()
  await reader.close()
})

test("two versions are compared with marks in the text", async () => {
  const reader = await openHistory()
  const { page } = reader
  const marks = () => page.locator(".changes").evaluate((changes) => [...changes.querySelectorAll("h3, ins, del")].map((mark) => `${mark.tagName} ${mark.textContent}`))
  await page.getByLabel("Show", { exact: true }).selectOption({ label: "What this edit changed" })
  await expect.poll(marks).toEqual(["H3 Goals changed", "DEL Two", "INS Three"])
  await page.getByRole("button", { name: "Earlier version" }).click()
  await expect.poll(async () => (await marks())[0]).toBe("H3 Risks changed")
  const inRisks = (await marks()).slice(1).join(" ")
  expect(inRisks).toMatch(/DEL None/)
  expect(inRisks).toMatch(/INS One.*👩‍👩‍👧/)
  await page.getByRole("button", { name: "Earlier version" }).click()
  await expect.poll(async () => (await marks())[0]).toBe("H3 Goals changed")
  await page.getByRole("button", { name: "Earlier version" }).click()
  await page.getByText("There is no version before this one").waitFor()

  await page.getByLabel("Show", { exact: true }).selectOption({ label: "What changed since" })
  await expect.poll(async () => (await marks()).filter((mark) => mark.startsWith("H3"))).toEqual(["H3 Goals changed", "H3 Risks changed"])
  await alpha.write(document.slug, goals, (text) => text.replace("Three", "Seven"))
  await expect.poll(() => page.locator(".changes").innerText()).toContain("Seven")

  await page.getByLabel("Of", { exact: true }).selectOption({ label: "Goals" })
  await page.getByText("Version 1 of 4").waitFor()
  await page.getByRole("button", { name: "Later version" }).click()
  await page.getByLabel("Show", { exact: true }).locator("optgroup option").nth(1).evaluate((option: HTMLOptionElement) => {
    const select = option.closest("select")!
    select.value = option.value
    select.dispatchEvent(new Event("change", { bubbles: true }))
  })
  await expect.poll(marks).toEqual(["H3 Goals changed", "DEL Two", "INS Three"])
  await reader.close()
})

test("one click goes back to where it was a while ago, and one more tells what changed since", async () => {
  const reader = await openHistory()
  const { page } = reader
  await page.getByRole("button", { name: "Yesterday" }).click()
  await page.getByText("Nothing is as old as that").waitFor() // it is younger than a day
  await page.getByText("Version 1 of 4").waitFor()
  await page.locator(".version").getByText("One goal.").waitFor()
  await page.getByRole("button", { name: "What changed since" }).click()
  await page.getByRole("region", { name: "Goals, changed" }).waitFor()
  await page.getByRole("button", { name: "What changed since" }).click()
  await page.getByRole("button", { name: "Bring back this text of Goals" }).click()
  await page.getByText("The section has this text again.").waitFor()
  expect((await ann.section(document.slug, goals)).text).toContain("One goal.")
  await reader.close()
})

test("yesterday's text is found however much was done since, and the latest is one click away", async () => {
  document = await admin.create("Much done", "# Plan\n\n## Goals\n\nOne goal.\n")
  goals = sectionId(document, "Goals")
  const { documentId } = document
  await alpha.write(document.slug, goals, (text) => text.replace("One goal", "Two goals"))
  const { lastSeq } = await admin.call<{ lastSeq: string }>("GET", `/documents/${documentId}`)
  for (let i = 0; i < 240; i++) await beta.call("POST", `/documents/${documentId}/events`, { text: `message ${i}` })
  await beta.write(document.slug, goals, (text) => text.replace("Two goals", "Three goals"))

  const reader = await Reader.open(browser)
  const { page } = reader
  let asked = 0
  await page.route(/\/events\?since=/, async (route) => {
    asked++
    const response = await route.fetch()
    const { events, ...rest } = await response.json()
    const aged = events.map((event: LogEvent) =>
      Number(event.seq) <= Number(lastSeq) ? { ...event, created_at: new Date(Date.parse(event.created_at) - 2 * 86_400_000).toISOString() } : event,
    )
    await route.fulfill({ response, json: { ...rest, events: aged } })
  })
  await reader.signIn(ann, `/d/${document.slug}`)
  await reader.live()
  await page.getByRole("button", { name: "History", exact: true }).click()
  await page.locator(".version").getByText("Three goals.").waitFor()
  asked = 0
  await page.getByRole("button", { name: "Yesterday" }).click()
  await page.locator(".version").getByText("Two goals.").waitFor()
  expect(asked).toBeLessThan(12)
  await page.getByRole("button", { name: "Latest versions" }).click()
  await page.locator(".version").getByText("Three goals.").waitFor()
  await reader.close()
})

test("what changed since is told while many go on writing and the server takes its time", async () => {
  const reader = await openHistory()
  const { page } = reader
  await page.route(/\/diff\?/, async (route) => {
    const response = await route.fetch()
    await new Promise((answer) => setTimeout(answer, 400))
    await route.fulfill({ response })
  })
  await page.getByRole("slider", { name: "Version" }).press("Home")
  await page.locator(".version").getByText("One goal.").waitFor()
  const seen = new AbortController()
  const writing = (async () => {
    for (let i = 0; !seen.signal.aborted; i++) await alpha.write(document.slug, goals, (text) => `${text}Line ${i}.\n`)
  })()
  try {
    await page.getByRole("button", { name: "What changed since" }).click()
    await page.getByRole("region", { name: "Goals, changed" }).getByText("Line").first().waitFor()
  } finally {
    seen.abort()
    await writing
  }
  await reader.close()
})

test("who wrote what is shown in their colours", async () => {
  const reader = await openHistory()
  const { page } = reader
  await page.getByLabel("Show", { exact: true }).selectOption({ label: "Who wrote what" })
  const authors = page.getByRole("list", { name: "Authors" })
  await authors.getByText("agent-beta").waitFor()
  const passages = await page
    .getByRole("region", { name: "Goals, by author" })
    .locator("[title]")
    .evaluateAll((spans) => spans.map((span) => `${span.getAttribute("title")}: ${span.textContent}`))
  expect(passages.join("|")).toContain("agent-beta: Three")
  expect(passages.map((passage) => passage.slice(passage.indexOf(": ") + 2)).join("")).toBe((await ann.section(document.slug, goals)).text)
  await reader.close()
})

test("what is being written is still open when its writer comes back from the history, and a viewer brings nothing back", async () => {
  const reader = await openHistory()
  const { page } = reader
  await page.getByRole("button", { name: "Back to the text" }).click()
  const field = await reader.write(goals)
  await page.keyboard.type("Begun. ")
  await page.getByRole("button", { name: "History", exact: true }).click()
  await page.getByText(/Version \d of \d/).waitFor()
  await page.getByRole("button", { name: "Back to the text" }).click()
  await expect.poll(() => field.innerText()).toContain("Begun. ")
  await reader.close()

  const viewer = await openHistory(await caller("vera", "viewer"))
  await viewer.page.getByRole("button", { name: "Earlier version" }).click()
  await viewer.page.locator(".version").getByText("Two goals.").waitFor()
  expect(await viewer.page.getByRole("button", { name: /Bring back this text/ }).count()).toBe(0)
  await viewer.close()
})
