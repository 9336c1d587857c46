import * as Automerge from "@automerge/automerge"
import type { Browser } from "playwright-core"
import { afterAll, beforeAll, expect, test } from "vitest"
import type { DocumentRef, SectionId } from "../../src/lib/wire"
import { keptChunks } from "./kept"
import { admin, caller, launch, phone, Reader, replica, sectionId, serverUrl, type Caller } from "./world"

interface Root {
  sections: Record<SectionId, { body: string }>
}

const markdown = "# Draft\n\n## Goals\n\nOne goal.\n\n## Risks\n\nNone known.\n"

let browser: Browser
let alpha: Caller
let ann: Caller
let bob: Caller

beforeAll(async () => {
  browser = await launch()
  ;[alpha, ann, bob] = await Promise.all([caller("agent-alpha", "editor"), caller("ann", "editor"), caller("bob", "editor")])
})
afterAll(() => browser.close())

async function openReader(who: Caller, slug: DocumentRef): Promise<Reader> {
  const reader = await Reader.open(browser)
  await reader.signIn(who, `/d/${slug}`)
  await reader.live()
  return reader
}

const textOf = async (slug: DocumentRef, id: SectionId) => (await alpha.section(slug, id)).text

/** The text that the server has after a key more. What is typed slowly is undone in several steps. */
async function pressed(reader: Reader, key: string, slug: DocumentRef, id: SectionId): Promise<string> {
  await reader.page.keyboard.press(key)
  return textOf(slug, id)
}

/** The text in the open editor, without the carets in it. */
function bodyOf(reader: Reader, id: SectionId): Promise<string> {
  return reader
    .section(id)
    .locator(".cm-content")
    .evaluate((content) => [...content.querySelectorAll(".cm-line")].map((line) => [...line.childNodes].map((node) => (node instanceof Element && node.classList.contains("caret") ? "" : node.textContent)).join("")).join("\n"))
}

test("a click into the text opens it there, each key is saved, and Escape leaves", async () => {
  const document = await admin.create("Clicked", markdown)
  const goals = sectionId(document, "Goals")
  const reader = await openReader(ann, document.slug)
  const { page } = reader

  await reader.section(goals).getByText("One goal.").click({ position: { x: 1, y: 8 } })
  await page.getByRole("textbox", { name: "Text of Goals, in Markdown" }).waitFor()
  await page.keyboard.type("Only ")
  await expect.poll(() => textOf(document.slug, goals)).toContain("\nOnly One goal.")
  await page.getByText("Saved", { exact: true }).waitFor()
  await page.keyboard.press("Escape")
  await reader.section(goals).locator(".prose").getByText("Only One goal.").waitFor()
  expect(await page.evaluate(() => globalThis.document.activeElement?.id)).toBe(`s-${goals}`)

  // Another section takes over, and a link in the text stays a link.
  await page.keyboard.press("Enter")
  await page.getByRole("textbox", { name: "Text of Goals" }).waitFor()
  await reader.write(sectionId(document, "Risks"))
  expect(await page.getByRole("textbox", { name: "Text of" }).count()).toBe(1)
  await reader.close()
})

test("an agent types along: carets show where everybody is, and undo takes back one's own keys only", async () => {
  const document = await admin.create("Along", markdown)
  const goals = sectionId(document, "Goals")
  const [a, b, node] = await Promise.all([openReader(ann, document.slug), openReader(bob, document.slug), replica<Root>(alpha, document)])
  await (await a.write(goals)).press("Control+End")
  await a.page.keyboard.type("Ann's goal.")
  await b.write(goals)
  await expect.poll(() => bodyOf(b, goals)).toContain("Ann's goal.")
  await b.section(goals).locator(".caret.person", { hasText: "ann" }).waitFor()

  // Bob and the agent write before and into what Ann wrote, and take some of it away.
  await b.page.keyboard.type("Bob's line.\n")
  await expect.poll(() => node.handle.doc().sections[goals]!.body).toContain("Bob's line.")
  node.handle.change((root) => {
    const at = root.sections[goals]!.body.indexOf("Ann's goal.")
    Automerge.splice(root, ["sections", goals, "body"], at + 3, 2, " and the agent’s")
  })
  await expect.poll(() => bodyOf(a, goals)).toContain("Ann and the agent’s goal.")
  await a.section(goals).locator(".caret.agent", { hasText: "agent-alpha" }).waitFor()
  await expect.poll(() => pressed(a, "Control+z", document.slug, goals)).toBe("Bob's line.\n## Goals\n\nOne goal.\n\n and the agent’s")
  await expect.poll(() => pressed(a, "Control+y", document.slug, goals)).toContain("Ann and the agent’s goal.")

  await b.page.keyboard.press("Escape")
  await a.section(goals).locator(".caret.person").waitFor({ state: "detached" })
  await node.close()
  await Promise.all([a.close(), b.close()])
})

test("what somebody has selected is seen by others, and stays with its words", async () => {
  const document = await admin.create("Selected", markdown)
  const goals = sectionId(document, "Goals")
  const [a, b] = await Promise.all([openReader(ann, document.slug), openReader(bob, document.slug)])
  await b.write(goals)
  const field = await a.write(goals)
  await field.press("Control+End")
  for (const key of ["ArrowLeft", "ArrowLeft", "ArrowLeft", "Control+Shift+ArrowLeft"]) await field.press(key)
  /** Whether the marks cover these words in Bob's editor: all of them, and nothing else. */
  const covers = (words: string) =>
    b
      .section(goals)
      .locator(".cm-editor")
      .evaluate((editor, words) => {
        const line = [...editor.querySelectorAll(".cm-line")].find((each) => each.textContent.includes(words))
        const range = new Range()
        const texts = editor.ownerDocument.createTreeWalker(line!, NodeFilter.SHOW_TEXT)
        for (let node = texts.nextNode(); node; node = texts.nextNode()) {
          const at = node.nodeValue!.indexOf(words)
          if (at < 0) continue
          range.setStart(node, at)
          range.setEnd(node, at + words.length)
        }
        const [marks, text] = [[...editor.querySelectorAll(".selections .selected")].map((mark) => mark.getBoundingClientRect()), range.getBoundingClientRect()]
        return marks.length === 1 && Math.abs(marks[0]!.left - text.left) < 2 && Math.abs(marks[0]!.right - text.right) < 2
      }, words)
  await expect.poll(() => covers("goal")).toBe(true)
  await alpha.write(document.slug, goals, (text) => text.replace("One", "One agreed"))
  await expect.poll(() => bodyOf(b, goals)).toContain("One agreed goal.")
  await expect.poll(() => covers("goal")).toBe(true)
  await field.press("ArrowRight")
  await b.section(goals).locator(".selected").waitFor({ state: "detached" })
  await Promise.all([a.close(), b.close()])
})

test("on a phone the names at carets stay within the text, however long they are", async () => {
  const document = await admin.create("Narrow", "# Plan\n\n## Goals\n\nWe all agree on this.\n")
  const goals = sectionId(document, "Goals")
  const reader = await Reader.open(browser, phone)
  await reader.signIn(ann, `/d/${document.slug}`)
  await reader.live()
  await reader.write(goals)
  const long = await caller(`agent-${"with-a-long-name-".repeat(3)}end`, "editor")
  for (const [writer, from, to] of [
    [long, "this", "that"],
    [alpha, "on that.", "on that, very much so."],
  ] as const) {
    await writer.write(document.slug, goals, (text) => text.replace(from, to))
    const name = reader.section(goals).locator(".caret .name", { hasText: writer.agent })
    const within = () =>
      name.evaluate((name) => {
        const [box, text] = [name.getBoundingClientRect(), name.closest(".cm-content")!.getBoundingClientRect()]
        return box.left > text.left - 1 && box.right < text.right + 1
      })
    await expect.poll(within, { message: writer.agent }).toBe(true)
  }
  await reader.close()
})

test("what one wrote is undone after the editor was closed, others wrote, and it was opened again", async () => {
  const document = await admin.create("Reopened", markdown)
  const goals = sectionId(document, "Goals")
  const reader = await openReader(ann, document.slug)
  await (await reader.write(goals)).press("Control+End")
  await reader.page.keyboard.type("Ann's goal.")
  await expect.poll(() => textOf(document.slug, goals)).toContain("Ann's goal.")
  await reader.page.keyboard.press("Escape")
  await alpha.write(document.slug, goals, (text) => text.replace("One", "One agreed").replace("Ann's goal", "Ann's first goal"))
  await reader.section(goals).locator(".prose").getByText("Ann's first goal.").waitFor()
  await (await reader.write(sectionId(document, "Risks"))).press("Escape")
  await reader.write(goals)
  await expect.poll(() => pressed(reader, "Control+z", document.slug, goals)).toMatch(/^## Goals\n\nOne agreed goal\.\n\n ?first ?$/)
  await expect.poll(() => pressed(reader, "Control+y", document.slug, goals)).toContain("Ann's first goal.")
  await reader.close()
})

test("a section with CRLF keeps it, its new lines have it, and positions are true behind it", async () => {
  const document = await admin.create("CRLF", "# Draft\r\n\r\nOne.\r\nTwo.\r\n")
  const draft = sectionId(document, "Draft")
  const reader = await openReader(ann, document.slug)
  const field = await reader.write(draft)
  for (const key of ["ArrowDown", "ArrowDown", "End", "ArrowRight", "End"]) await field.press(key)
  await reader.page.keyboard.type("\nThree 👍")
  await expect.poll(() => textOf(document.slug, draft)).toBe("# Draft\r\n\r\nOne.\r\nTwo.\r\nThree 👍\r\n")
  await alpha.write(document.slug, draft, (text) => text.replace("Three", "3"))
  await expect.poll(() => bodyOf(reader, draft)).toContain("3 👍")
  await field.press("Home")
  await field.press("Backspace")
  await expect.poll(() => textOf(document.slug, draft)).toBe("# Draft\r\n\r\nOne.\r\nTwo.3 👍\r\n")
  await reader.close()
})

test("somebody else's lease is told of while one writes, and what is written stands", async () => {
  const document = await admin.create("Advised", markdown)
  const risks = sectionId(document, "Risks")
  const goals = sectionId(document, "Goals")
  await alpha.lease(document.slug, risks, 120, "listing them")
  const reader = await openReader(ann, document.slug)
  const { page } = reader
  await reader.section(risks).hover()
  await page.getByRole("button", { name: "Take the lease on Risks" }).click()
  await page.getByText(/agent-alpha holds the lease for another (2 mins|1 min, \d+ secs?): listing them/).waitFor()
  await (await reader.write(risks)).press("Control+End")
  await page.getByText("agent-alpha holds the lease on this section: listing them.").waitFor()
  await page.keyboard.type("One known.")
  await page.locator('li[data-type="section.lease_overridden"]', { hasText: "ann wrote in Risks while" }).waitFor()
  await page.getByRole("button", { name: "Done" }).click()

  // One's own lease, from taking it to giving it back.
  await reader.section(goals).hover()
  await page.getByRole("button", { name: "Take the lease on Goals" }).click()
  await reader.section(goals).getByText("(you) holds the lease").waitFor()
  await alpha.write(document.slug, goals, (text) => text.replace("One", "One agreed"))
  await page.locator('li[data-type="section.lease_overridden"]', { hasText: "agent-alpha wrote in Goals while" }).waitFor()
  await reader.section(goals).hover()
  await page.getByRole("button", { name: "Extend the lease on Goals" }).click()
  await page.locator('li[data-type="section.lease_renewed"]').first().waitFor()
  await page.getByRole("button", { name: "Release the lease on Goals" }).click()
  await reader.section(goals).locator(".badge").waitFor({ state: "detached" })
  await reader.close()
})

test("what is being written survives its section being moved, and the writer with it", async () => {
  const document = await admin.create("Moved", "# Draft\n\n## Goals\n\n## Risks\n\n## Plan\n\nNo plan.\n")
  const [draft, plan] = [sectionId(document, "Draft"), sectionId(document, "Plan")]
  const reader = await openReader(ann, document.slug)
  const field = await reader.write(plan)
  await field.press("Control+End")
  // Over one other it is that one which moves in the page; over two it is the section that is written in.
  for (const [after, order] of [[draft, ["Draft", "Plan", "Goals", "Risks"]], ["", ["Plan", "Draft", "Goals", "Risks"]]] as const) {
    await alpha.call("POST", `/documents/${document.slug}/sections/${plan}/move`, { after })
    await expect.poll(() => reader.headings()).toEqual(order)
    await field.and(reader.page.locator(":focus")).waitFor()
    await reader.page.keyboard.type("Still here.")
  }
  await expect.poll(() => textOf(document.slug, plan)).toContain("Still here.Still here.")
  await reader.close()
})

test("offline, two browsers and an agent write on; when the network is back all have everything, and undo is still one's own", async () => {
  const document = await admin.create("Offline", markdown)
  const goals = sectionId(document, "Goals")
  const [a, b] = await Promise.all([openReader(ann, document.slug), openReader(bob, document.slug)])
  const nodes = await Promise.all([replica<Root>(alpha, document), replica<Root>(bob, document)])
  await (await a.write(goals)).press("Control+End")
  await (await b.write(goals)).press("Control+End")

  await Promise.all([a, b].map(({ page }) => page.context().setOffline(true)))
  for (const { page } of [a, b]) await page.getByText("The link to the server is down.").waitFor()
  await a.page.keyboard.type("Ann's words. ")
  await b.page.keyboard.type("Bob's words. ")
  await a.page.getByText("Not saved yet: what you wrote in Goals.").waitFor()
  nodes.forEach(({ handle }, i) => handle.change((root) => Automerge.splice(root, ["sections", goals, "body"], 0, 0, `Agent ${i}'s words. `)))
  await expect.poll(() => textOf(document.slug, goals)).toMatch(/Agent 1's words\. .*|Agent 0's words\. /)
  await Promise.all([a, b].map(({ page }) => page.context().setOffline(false)))
  await Promise.all([a.live(), b.live()])
  for (const { page } of [a, b]) await page.getByText("Saved", { exact: true }).waitFor()

  const written = ["Agent 0's words. ", "Agent 1's words. ", "Ann's words. ", "Bob's words. ", "One goal."]
  const bodies = () => Promise.all([textOf(document.slug, goals), ...[a, b].map((reader) => bodyOf(reader, goals)), ...nodes.map(({ handle }) => handle.doc().sections[goals]!.body)])
  await expect.poll(async () => new Set(await bodies()).size).toBe(1)
  const [body] = await bodies()
  for (const words of written) expect(body).toContain(words)

  await expect.poll(() => pressed(a, "Control+z", document.slug, goals)).toBe(body!.replace("Ann's words. ", ""))
  await Promise.all(nodes.map((node) => node.close()))
  await Promise.all([a.close(), b.close()])
})

test("what was written in a tab that closed while the link was down is saved when the document is opened again, and signing out takes it along", async () => {
  const document = await admin.create("Kept", markdown)
  const goals = sectionId(document, "Goals")
  const reader = await openReader(ann, document.slug)
  const { page } = reader
  await (await reader.write(goals)).press("Control+End")
  await page.context().setOffline(true)
  await page.getByText("The link to the server is down.").waitFor()
  await page.keyboard.type("Kept words.")
  await page.getByText("Not saved yet: what you wrote in Goals.").waitFor()
  const context = page.context()
  await page.close()
  await context.setOffline(false)
  await alpha.write(document.slug, goals, (text) => text.replace("One", "Two"))
  const again = await context.newPage()
  await again.goto(`${serverUrl}/d/${document.slug}`)
  await expect.poll(() => textOf(document.slug, goals)).toBe("## Goals\n\nTwo goal.\n\nKept words.")

  expect(await keptChunks(again)).not.toEqual([])
  await again.getByText("Kept words.").waitFor()
  await again.getByRole("button", { name: "Sign out" }).click()
  await again.getByText("You are signed out.").waitFor()
  await expect.poll(() => keptChunks(again)).toEqual([])
  await context.close()
})

test("who is followed takes the page along to what they write, until the reader scrolls", async () => {
  const document = await admin.create("Followed", Array.from({ length: 30 }, (_, i) => `## Part ${i}\n\n${"Some lines of text.\n\n".repeat(10)}`).join(""))
  const [near, far] = [sectionId(document, "Part 1"), sectionId(document, "Part 28")]
  const reader = await openReader(ann, document.slug)
  const { page } = reader
  await alpha.write(document.slug, near, (text) => `${text}One.\n`)
  const follow = page.getByRole("button", { name: "Follow agent-alpha" })
  await follow.click()
  await alpha.write(document.slug, far, (text) => `${text}Far away.\n`)
  const inSight = (words: string) =>
    expect.poll(() => page.getByText(words).evaluate((element) => element.getBoundingClientRect().top > 0 && element.getBoundingClientRect().bottom < innerHeight).catch(() => false)).toBe(true)
  await inSight("Far away.")
  await alpha.write(document.slug, near, (text) => `${text}Back again.\n`)
  await inSight("Back again.")
  expect(await follow.getAttribute("aria-pressed")).toBe("true")
  await page.mouse.move(600, 500)
  await page.mouse.wheel(0, 200)
  await expect.poll(() => follow.getAttribute("aria-pressed")).toBe("false")
  await reader.close()
})

test("10,000 lines are written in where they stand", async () => {
  const lines = Array.from({ length: 10_000 }, (_, i) => `Line ${i} of the text.`).join("\n")
  const document = await admin.create("Lines", `# Lines\n\n${lines}\n`)
  const id = sectionId(document, "Lines")
  const reader = await openReader(ann, document.slug)
  const field = await reader.write(id)
  await field.press("Control+End")
  await reader.page.keyboard.type("The end.")
  await expect.poll(async () => (await textOf(document.slug, id)).slice(-40)).toContain("Line 9999 of the text.\nThe end.")
  expect(await field.locator(".cm-line").count(), "lines in the page").toBeLessThan(1_000)
  await reader.close()
})
