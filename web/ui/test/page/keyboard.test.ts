// Everything without a mouse: what can be clicked is reached by Tab, in the order in which it stands, the focus is
// always to be seen, and it is never lost when what had it goes.

import type { Browser, Page } from "playwright-core"
import { afterAll, beforeAll, expect, test } from "vitest"
import { admin, caller, launch, Reader, sectionId, serverUrl, type Caller } from "./world"

let browser: Browser
let alpha: Caller
let ann: Caller

beforeAll(async () => {
  browser = await launch()
  alpha = await caller("agent-alpha", "editor")
  ann = await caller("ann", "editor")
})
afterAll(() => browser.close())

interface Stop {
  what: string
  /** Before the stop before it in the page. */
  back: boolean
  seen: boolean
}

/** What has the focus now, as a reader would call it; "" for nothing. */
const focused = (page: Page) =>
  page.evaluate(() => {
    let element = document.activeElement
    while (element?.shadowRoot?.activeElement) element = element.shadowRoot.activeElement
    if (!element || element === document.body) return ""
    return (element.getAttribute("aria-label") ?? (element as HTMLInputElement).labels?.[0]?.textContent ?? element.textContent ?? "").trim().replace(/\s+/g, " ") || element.outerHTML
  })

/** Presses Tab from the top of the page to its end, and gives where the focus stopped. */
async function walk(page: Page): Promise<Stop[]> {
  await page.evaluate(() => {
    ;(document.activeElement as HTMLElement | null)?.blur()
    getSelection()?.removeAllRanges()
    document.querySelectorAll("[data-walked]").forEach((element) => element.removeAttribute("data-walked"))
    const top = document.createElement("span")
    top.tabIndex = -1
    const scope = document.querySelector("dialog[open]") ?? document.body
    scope.prepend(top)
    top.id = "top"
    top.focus()
  })
  const stops: Stop[] = []
  for (;;) {
    await page.keyboard.press("Tab")
    const stop = await page.evaluate(() => {
      document.getElementById("top")?.remove()
      const element = document.activeElement
      if (!element || element === document.body || element.hasAttribute("data-walked")) return undefined
      const before = [...document.querySelectorAll("[data-walked]")].find((each) => each.getAttribute("data-walked") === "last")
      before?.setAttribute("data-walked", "")
      element.setAttribute("data-walked", "last")
      // What is too small to be outlined has it drawn around what stands for it.
      const drawn = [element, element.closest("label"), element.querySelector("text"), element.closest(".ready")].filter((each) => each !== null)
      const seen = drawn.some((each) => {
        const style = getComputedStyle(each)
        return (style.outlineStyle !== "none" && parseFloat(style.outlineWidth) > 0) || (each.matches(".ready") && style.boxShadow !== "none")
      })
      const { width, height } = element.getBoundingClientRect()
      const opaque = element.checkVisibility({ opacityProperty: true, visibilityProperty: true })
      return {
        what: (element.getAttribute("aria-label") ?? element.textContent ?? "").trim().replace(/\s+/g, " ") || element.outerHTML,
        back: before !== undefined && (before.compareDocumentPosition(element) & Node.DOCUMENT_POSITION_PRECEDING) !== 0,
        seen: seen && width > 0 && height > 0 && opaque,
      }
    })
    if (!stop) return stops
    stops.push(stop)
  }
}

/** What can be clicked, chosen or written in, and was not stopped at. */
const missed = (page: Page) =>
  page.evaluate(() => {
    const scope = document.querySelector("dialog[open]") ?? document
    return [...scope.querySelectorAll("a[href], button, input, select, textarea, summary, [tabindex='0'], [role='button']")]
      // Of radio buttons the chosen one is stopped at; arrows lead to the others.
      .filter((element) => element.checkVisibility() && !element.matches(":disabled, [data-walked], [type='radio']:not(:checked)"))
      .map((element) => element.outerHTML.slice(0, 160))
  })

async function expectWalkable(page: Page, what: string): Promise<void> {
  // An animation that shows what the focus is on has to have come to its end.
  await page.emulateMedia({ reducedMotion: "reduce" })
  const stops = await walk(page)
  expect(await missed(page), `not reached in ${what}`).toEqual([])
  expect(stops.filter(({ seen }) => !seen).map((stop) => stop.what), `no outline in ${what}`).toEqual([])
  expect(stops.filter(({ back }) => back).map((stop) => stop.what), `reached before what stands before it in ${what}`).toEqual([])
  expect(stops.length, `stops in ${what}`).toBeGreaterThan(0)
}

/** Goes on with Tab until the focus is on what has this name. */
async function tabTo(page: Page, name: string | RegExp): Promise<void> {
  const is = (found: string) => (typeof name === "string" ? found === name : name.test(found))
  const passed: string[] = []
  for (let i = 0; i < 150; i++) {
    const found = await focused(page)
    if (is(found)) return
    passed.push(found)
    await page.keyboard.press("Tab")
  }
  throw new Error(`Tab does not come to ${name}: ${passed.join(" | ")}`)
}

async function press(page: Page, name: string | RegExp, key = "Enter"): Promise<void> {
  await tabTo(page, name)
  await page.keyboard.press(key)
}

const expectFocus = (page: Page, name: string | RegExp) => expect.poll(() => focused(page)).toEqual(typeof name === "string" ? name : expect.stringMatching(name))

/** Waits until the focus is anywhere but nowhere. */
async function expectFocusKept(page: Page): Promise<void> {
  await expect.poll(() => focused(page)).not.toBe("")
}

test("signing in, making a document and deleting it", async () => {
  const reader = await Reader.open(browser)
  const { page } = reader
  await page.goto(serverUrl)
  await page.getByLabel("Your key").waitFor()
  await expectWalkable(page, "the sign-in page")
  await tabTo(page, "Your key")
  await page.keyboard.type(ann.key)
  await page.keyboard.press("Enter")
  await expectFocus(page, "Documents")
  await expectWalkable(page, "the list")

  await press(page, "New document")
  await expectWalkable(page, "the dialog of a new document")
  await page.keyboard.press("Escape")
  await expectFocus(page, "New document")
  await page.keyboard.press("Enter")
  await tabTo(page, "Title")
  await page.keyboard.type("By hand")
  const chooser = page.waitForEvent("filechooser")
  await press(page, "choose one", "Space")
  await (await chooser).setFiles({ name: "a.md", mimeType: "text/markdown", buffer: Buffer.from("# By hand\n\nOne.\n\n## Two\n\nTwo.\n") })
  await expect.poll(() => page.getByLabel("Text in Markdown").inputValue()).toContain("## Two")
  await press(page, "Create")
  await expectFocus(page, "By hand")
  await reader.live()

  for (const [button, first] of [["Rename", "Title"], ["Share", "The link ends after"], ["Delete", /^Export first/]] as const) {
    await press(page, button)
    await tabTo(page, first)
    await expectWalkable(page, `the dialog ${button}`)
    await page.keyboard.press("Escape")
    await expectFocus(page, button)
  }
  await press(page, "Rename")
  await press(page, "Cancel")
  await expectFocus(page, "Rename")
  await page.keyboard.press("Enter")
  await tabTo(page, "Title")
  await page.keyboard.press("Control+a")
  await page.keyboard.type("By keys")
  await page.keyboard.press("Enter")
  await page.getByRole("heading", { name: "By keys", level: 1 }).waitFor()
  await expectFocusKept(page)
  await press(page, "Share")
  await press(page, "Make the link and copy it")
  await page.getByLabel("Link", { exact: true }).waitFor()
  await expectFocusKept(page)
  await press(page, "Done")
  await expectFocus(page, "Share")
  await press(page, "Delete")
  await press(page, "Delete")
  await expectFocus(page, "Documents")
  await press(page, "Playground")
  await expectFocus(page, "Who gets the lease?")
  await reader.close()
})

test("reading, writing, leasing and arranging a document", async () => {
  const document = await admin.create("Keys", "# Plan\n\nSee [there](https://example.org).\n\n## Goals\n\nOne goal.\n\n## Risks\n\nNone.\n\n## Ideas\n\nMany.\n")
  const [goals, risks] = [sectionId(document, "Goals"), sectionId(document, "Risks")]
  const reader = await Reader.open(browser)
  const { page } = reader
  await reader.signIn(ann, `/d/${document.slug}`)
  await reader.live()
  await page.locator(".link.open").waitFor()
  await alpha.lease(document.slug, risks, 300, "listing them")
  await page.getByRole("button", { name: "Queue for Risks" }).waitFor()
  await expectWalkable(page, "a document")

  // Writing, and leaving the editor either way.
  await press(page, "Write in Goals")
  await expectFocus(page, /^Text of Goals/)
  await page.keyboard.press("Control+End")
  await page.keyboard.type("And another.")
  await page.keyboard.press("Tab")
  await expectFocus(page, "Done")
  await page.keyboard.press("Enter")
  await expectFocus(page, "Goals")
  await page.keyboard.press("Enter")
  await expectFocus(page, /^Text of Goals/)
  await page.keyboard.press("Escape")
  await expectFocus(page, "Goals")
  await expect.poll(async () => (await alpha.section(document.slug, goals)).text).toContain("And another.")

  // One's own lease.
  await press(page, "Take the lease on Goals")
  await expectFocus(page, "Extend the lease on Goals")
  await page.keyboard.press("Enter")
  await page.locator('li[data-type="section.lease_renewed"]').waitFor()
  await expectFocus(page, "Extend the lease on Goals")
  await press(page, "Release the lease on Goals")
  await reader.section(goals).locator(".badge").waitFor({ state: "detached" })
  await expectFocus(page, /^(Take the lease on|Write in) Goals$/)

  // Somebody else's.
  await press(page, "Queue for Risks")
  await expectFocus(page, "Leave the queue for Risks")
  await page.keyboard.press("Enter")
  await expectFocus(page, "Queue for Risks")
  await press(page, "Ask agent-alpha about Risks")
  await expectFocus(page, "Message to agent-alpha")
  await page.keyboard.press("Escape")
  await expectFocusKept(page)
  await press(page, "Ask agent-alpha about Risks")
  await expectFocus(page, "Message to agent-alpha")
  await page.keyboard.press("Enter")
  await page.locator('li[data-type="message.posted"]').waitFor()
  await expectFocusKept(page)

  // Moving, removing, restoring.
  await press(page, "Move Ideas up")
  await expect.poll(() => reader.headings()).toEqual(["Plan", "Goals", "Ideas", "Risks"])
  await expectFocus(page, "Move Ideas up")
  await press(page, "Remove Ideas")
  await expect.poll(() => reader.headings()).toEqual(["Plan", "Goals", "Risks"])
  await expectFocus(page, "Risks")
  await press(page, "Undo")
  await expect.poll(() => reader.headings()).toEqual(["Plan", "Goals", "Ideas", "Risks"])
  await expectFocusKept(page)
  await press(page, "Remove Ideas")
  await expect.poll(() => reader.headings()).toEqual(["Plan", "Goals", "Risks"])
  await press(page, "Dismiss")
  await expectFocusKept(page)
  await press(page, "1 removed section")
  await press(page, "Restore Ideas")
  await expect.poll(() => reader.headings()).toEqual(["Plan", "Goals", "Ideas", "Risks"])
  await expectFocusKept(page)
  await tabTo(page, "Skip to the text")
  await tabTo(page, "Goals")
  await page.keyboard.press("Alt+ArrowDown")
  await expect.poll(() => reader.headings()).toEqual(["Plan", "Ideas", "Goals", "Risks"])
  await expectFocus(page, "Goals")

  // Adding.
  await press(page, "Add a section")
  await expectFocus(page, "New section, in Markdown")
  await press(page, "Cancel")
  await expectFocus(page, "Add a section")
  await page.keyboard.press("Enter")
  await expectFocus(page, "New section, in Markdown")
  await page.keyboard.type("## More")
  await press(page, "Add")
  await expect.poll(() => reader.headings()).toEqual(["Plan", "Ideas", "Goals", "Risks", "More"])
  await expectFocus(page, "Add a section")

  // The log.
  await tabTo(page, "Of which kind")
  await page.keyboard.press("ArrowDown")
  await expect.poll(() => page.locator('.log li[data-type^="section.lease"]').count()).toBe(0)
  await page.keyboard.press("Home")
  await press(page, "Verify")
  await page.getByText("Log verified").waitFor()
  await expectFocus(page, "Again")
  await reader.close()
})

test("the history of a document", async () => {
  const document = await admin.create("Old", "# Plan\n\nOne.\n")
  const plan = document.sections[0]!.id
  for (const next of ["Two", "Three"]) await alpha.call("PUT", `/documents/${document.slug}/sections/${plan}`, { text: `# Plan\n\n${next}.\n`, base: "current" })
  const reader = await Reader.open(browser)
  const { page } = reader
  await reader.signIn(ann, `/d/${document.slug}`)
  await reader.live()
  await press(page, "History")
  await expectFocus(page, "Back to the text")
  const shown = page.locator(".version")
  await shown.getByText("Three.").waitFor()
  await expectWalkable(page, "the history")
  await tabTo(page, "Version")
  await page.keyboard.press("ArrowLeft")
  await shown.getByText("Two.").waitFor()
  await page.keyboard.press("Home")
  await shown.getByText("One.").waitFor()
  await tabTo(page, "Show")
  await page.keyboard.press("ArrowDown")
  await page.locator(".authors").waitFor()
  await page.keyboard.press("Home")
  await shown.waitFor()
  await press(page, "What changed since")
  await page.locator(".changes ins").waitFor()
  await expectFocus(page, "What changed since")
  await page.keyboard.press("Enter")
  await press(page, "A minute ago")
  await expectFocus(page, "A minute ago")
  await press(page, "Bring back this text of Plan")
  await expect.poll(async () => (await alpha.section(document.slug, plan)).text).toBe("# Plan\n\nOne.\n")
  await expectFocusKept(page)
  await tabTo(page, "Back to the text")
  await page.keyboard.press("Enter")
  await expectFocusKept(page)
  await reader.close()
})

test("the administrator's page", async () => {
  const reader = await Reader.open(browser)
  const { page } = reader
  const document = await admin.create("Harmful", "# Harmful\n")
  await reader.signIn(admin, "/admin")
  for (const part of ["Agents", "Documents", "Sockets", "Keys"]) {
    await tabTo(page, "Keys")
    await press(page, part)
    await page.locator("main [aria-busy='true']").waitFor({ state: "detached" })
    await expectFocus(page, part)
    await expectWalkable(page, `the part ${part}`)
  }
  await press(page, "New key")
  await tabTo(page, "For whom")
  await expectWalkable(page, "the dialog of a new key")
  await tabTo(page, "For whom")
  await page.keyboard.type("passing-by")
  await press(page, "Make the key")
  await page.getByRole("textbox", { name: "Key", exact: true }).waitFor()
  await expectFocusKept(page)
  await page.keyboard.press("Escape")
  await expectFocus(page, "New key")
  await press(page, "Revoke the key of passing-by")
  await press(page, "Revoke")
  await page.getByRole("button", { name: "Revoke the key of passing-by" }).waitFor({ state: "detached" })
  await expectFocusKept(page)
  await tabTo(page, "Keys")
  await press(page, "Documents")
  await press(page, "Block Harmful")
  await tabTo(page, /^Why/)
  await page.keyboard.press("Enter")
  await page.getByRole("button", { name: "Put Harmful back into service" }).waitFor()
  await expectFocusKept(page)
  await press(page, "Put Harmful back into service")
  await page.getByRole("button", { name: "Put Harmful back into service" }).waitFor({ state: "detached" })
  await expectFocusKept(page)
  await admin.call("DELETE", `/documents/${document.slug}`)
  await reader.close()
})

test("coordination and the playground", async () => {
  const reader = await Reader.open(browser)
  const { page } = reader
  await alpha.coordinate("lease", "lock:keys")
  await ann.coordinate("lease", "lock:keys")
  await reader.signIn(ann, "/coordination")
  await page.getByRole("heading", { name: "Holders and queues" }).waitFor()
  await expectWalkable(page, "coordination")
  await press(page, "Playground")
  await expectFocus(page, "Who gets the lease?")
  await page.getByRole("button", { name: "Run", exact: true }).waitFor()
  await expectWalkable(page, "the playground")
  await press(page, "Run")
  await page.locator("[data-verdict]").first().waitFor()
  await press(page, "Next", "Space")
  await expectFocusKept(page)
  await reader.close()
})
