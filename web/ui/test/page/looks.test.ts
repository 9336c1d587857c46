import { join } from "node:path"
import axe from "axe-core"
import type { Browser } from "playwright-core"
import { afterAll, beforeAll, expect, test } from "vitest"
import type { Document, DocumentRef } from "../../src/lib/wire"
import { caller, desktop, launch, phone, Reader, sectionId, serverUrl, shotsDir, type Caller } from "./world"

const markdown = `# Release plan

Four agents and two people write this plan at the same time. **Nothing is locked**: a lease only says who is at work where.

## Goals

- Ship the sync server with *durable* acknowledgements
- Keep the p95 of an edit under \`100 ms\`
- No write refused, ever

> A lease never blocks a write; it tells, it queues, it is recorded.

## Timeline

| Week | What | Who |
| --- | --- | --- |
| 1 | Protocol transcripts | agent-alpha |
| 2 | Lease kernel | agent-beta |
| 3 | Browser page | ann |

\`\`\`sh
cowrite serve --addr 127.0.0.1:8080 --data ./data
\`\`\`

## Ideas

None was kept.

## Risks

1. A dead link that nobody notices
2. Merges that surprise
   - two authors, one sentence
   - a heading that moves

See [the log](https://example.com/log).
`

let browser: Browser
let ann: Caller
let document: Document & { slug: DocumentRef }

beforeAll(async () => {
  browser = await launch()
  const [alpha, beta] = [await caller("agent-alpha", "editor"), await caller("agent-beta", "editor")]
  ann = await caller("ann", "editor")
  document = await ann.create("Release plan", markdown)
  await alpha.create("Field notes on agents that write together for hours, and what they leave behind", "# Notes\n")
  await beta.lease(document.slug, sectionId(document, "Goals"), 300, "making them measurable")
  await beta.write(document.slug, sectionId(document, "Goals"), (text) => text.replace("durable", "truly durable"))
  await alpha.lease(document.slug, sectionId(document, "Timeline"), 240)
  const timeline = `/documents/${document.slug}/sections/${sectionId(document, "Timeline")}`
  const { text, version } = await alpha.call<{ text: string; version: string }>("GET", timeline)
  await alpha.call("PUT", timeline, { text: text.replace("Browser page", "UI"), base: version })
  await beta.call("PUT", timeline, { text: text.replace("Browser page", "CLI"), base: version })
  await alpha.call("DELETE", `/documents/${document.slug}/sections/${sectionId(document, "Ideas")}`)
  await alpha.call("POST", `/documents/${document.slug}/events`, { text: "I take the timeline; who takes the risks?" })
  await alpha.write(document.slug, sectionId(document, "Goals"), (text) => text.replace("ever", "ever, by anybody"))
})
afterAll(() => browser.close())

const screens = [
  { name: "desktop-light", options: { ...desktop, colorScheme: "light" as const } },
  { name: "desktop-dark", options: { ...desktop, colorScheme: "dark" as const } },
  { name: "phone-light", options: { ...phone, colorScheme: "light" as const } },
  { name: "phone-dark", options: { ...phone, colorScheme: "dark" as const } },
]

test.each(screens)("$name: every page fits, has nothing that keeps people out, and is pictured", async ({ name, options }) => {
  const reader = await Reader.open(browser, options)
  const { page } = reader
  const look = async (what: string) => {
    await page.screenshot({ path: join(shotsDir, `${name}-${what}.png`) })
    expect(await page.evaluate(() => globalThis.document.documentElement.scrollWidth - innerWidth), `${what} is wider than the screen`).toBeLessThanOrEqual(0)
    await page.evaluate(axe.source)
    const { violations } = await page.evaluate(() => (globalThis as unknown as { axe: typeof axe }).axe.run())
    expect(
      violations.map((violation) => `${violation.impact} ${violation.id}: ${violation.nodes.map((node) => node.html).join(" ")}`),
      `what axe finds in ${what}`,
    ).toEqual([])
  }

  await page.goto(serverUrl)
  await page.getByLabel("Your key").waitFor()
  await look("signin")
  await reader.signIn(ann)
  await page.locator(`a[href="/d/${document.slug}"]`).waitFor()
  await look("list")
  await page.getByRole("button", { name: "New document" }).click()
  await look("new")
  await page.getByRole("button", { name: "Cancel" }).click()
  await page.locator(`a[href="/d/${document.slug}"]`).click()
  await reader.live()
  await reader.section(sectionId(document, "Goals")).locator(".badge").waitFor()
  await page.locator('li[data-type="message.posted"]').waitFor({ state: "attached" })
  if (name.startsWith("desktop")) {
    await page.getByRole("button", { name: "Verify" }).click()
    await page.getByText(/Log verified/).waitFor()
  }
  await look("document")
  for (const tool of ["Rename", "Share", "Delete"]) {
    await page.getByRole("button", { name: tool, exact: true }).click()
    if (tool === "Share") {
      await page.getByRole("button", { name: "Make the link and copy it" }).click()
      await page.getByLabel("Link", { exact: true }).waitFor()
    }
    await look(tool.toLowerCase())
    await page.keyboard.press("Escape")
  }
  if (name.startsWith("phone")) {
    await page.getByRole("button", { name: "Log" }).click()
    await look("log")
    await page.getByRole("button", { name: "Text" }).click()
  }
  await page.getByRole("button", { name: "History", exact: true }).click()
  for (const [label, what] of [["The text", "history"], ["What changed since", "changes"], ["Who wrote what", "authors"]] as const) {
    await page.getByLabel("Show", { exact: true }).selectOption({ label })
    await page.getByRole("button", { name: "Earlier version" }).click()
    await page.locator('[aria-busy="false"]').first().waitFor()
    await look(what)
  }
  await page.getByRole("button", { name: "Back to the text" }).click()
  await reader.section(sectionId(document, "Timeline")).scrollIntoViewIfNeeded()
  await look("overlap")
  await page.getByRole("button", { name: "Ask agent-beta about Goals" }).click()
  await page.getByLabel("Message to agent-beta").waitFor()
  await look("ask")
  await page.keyboard.press("Escape")
  await reader.section(sectionId(document, "Goals")).scrollIntoViewIfNeeded()
  await page.getByRole("button", { name: "Write in Goals" }).click()
  await page.getByLabel("Text of Goals, in Markdown").waitFor()
  await look("editor")
  await page.keyboard.press("Escape")
  await page.getByText(/1 removed section/).click()
  await page.getByRole("button", { name: "Restore Ideas" }).scrollIntoViewIfNeeded()
  await look("removed")
  await reader.close()
})
