import { join } from "node:path"
import axe from "axe-core"
import type { Browser } from "playwright-core"
import { afterAll, beforeAll, expect, test } from "vitest"
import { stage, type Stage } from "./stage"
import { admin, desktop, launch, phone, Reader, sectionId, serverUrl, shotsDir } from "./world"

let browser: Browser
let set: Stage

beforeAll(async () => {
  browser = await launch()
  set = await stage()
})
afterAll(async () => {
  await set.end()
  await browser.close()
})

const schemes = ["light", "dark"] as const

/** Where the few pictures go that the README shows, if they are to be made. */
const readmeDir = process.env["COWRITE_README_SHOTS"]
const inReadme = ["document", "coordination"]

test.each([
  { name: "desktop", options: desktop },
  { name: "phone", options: phone },
])("$name: every page fits, has nothing that keeps people out in light or dark, and is pictured", async ({ name, options }) => {
  const reader = await Reader.open(browser, { ...options, reducedMotion: "reduce" })
  const { page } = reader
  const { ann, document } = set
  const goals = sectionId(document, "Goals")

  async function look(what: string): Promise<void> {
    for (const colorScheme of schemes) {
      await page.emulateMedia({ colorScheme })
      await page.evaluate(() => new Promise((drawn) => requestAnimationFrame(() => requestAnimationFrame(drawn))))
      await page.screenshot({ path: join(shotsDir, `${name}-${colorScheme}-${what}.png`) })
      if (readmeDir && name === "desktop" && colorScheme === "light" && inReadme.includes(what)) {
        await page.screenshot({ path: join(readmeDir, `${what}.jpg`), type: "jpeg", quality: 70 })
      }
      await page.evaluate(axe.source)
      // What axe looks at besides is the same in both.
      const rules = colorScheme === "light" ? {} : { runOnly: { type: "rule" as const, values: ["color-contrast"] } }
      const { violations } = await page.evaluate((rules) => (globalThis as unknown as { axe: typeof axe }).axe.run(rules), rules)
      expect(
        violations.map((violation) => `${violation.impact} ${violation.id}: ${violation.nodes.map((node) => node.html).join(" ")}`),
        `what axe finds in ${what}, ${colorScheme}`,
      ).toEqual([])
    }
    const { width } = page.viewportSize()!
    expect(await page.evaluate(() => globalThis.document.documentElement.scrollWidth), `${what} is wider than the screen`).toBeLessThanOrEqual(width)
  }
  const go = async (path: string, ready: string) => {
    await page.goto("about:blank") // an address that differs in what is behind # alone loads nothing
    await page.goto(serverUrl + path)
    await page.locator(ready).first().waitFor()
    await look(path.replace(/\W+/g, "-").slice(1))
  }

  await page.goto(serverUrl)
  await page.getByLabel("Your key").waitFor()
  await look("signin")
  await reader.signIn(ann)
  await page.locator(`a[href="/d/${document.slug}"]`).waitFor()
  await look("list")
  await page.getByRole("button", { name: "Deleted", exact: true }).click()
  await page.getByRole("button", { name: "Restore Last week's release plan" }).waitFor()
  await look("deleted")
  await page.getByRole("button", { name: "Deleted", exact: true }).click()
  if (name === "phone") {
    await page.getByRole("button", { name: "Menu" }).click()
    await look("menu")
    await page.keyboard.press("Escape")
  }
  await page.getByRole("button", { name: "New document" }).click()
  await look("new")
  await page.getByRole("button", { name: "Cancel" }).click()
  await page.locator(`a[href="/d/${document.slug}"]`).click()
  await reader.live()
  await reader.section(goals).locator(".badge").waitFor()
  await page.locator('li[data-type="message.posted"]').waitFor({ state: "attached" })
  if (name === "desktop") {
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
  if (name === "phone") {
    await page.getByRole("button", { name: "Log" }).click()
    await look("log")
    await page.getByRole("button", { name: "Text" }).click()
  }
  await page.getByRole("button", { name: "History", exact: true }).click()
  for (const [label, what] of [
    ["The text", "history"],
    ["What changed since", "changes"],
    ["Who wrote what", "authors"],
  ] as const) {
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
  await reader.write(goals)
  await set.alpha.write(document.slug, goals, (text) => text.replace(/No(t one)? write/, (now) => (now === "No write" ? "Not one write" : "No write")))
  await reader.section(goals).locator(".caret .name").waitFor()
  await look("editor")
  await page.keyboard.press("Escape")
  await page.getByText(/1 removed section/).click()
  await page.getByRole("button", { name: "Restore Ideas" }).scrollIntoViewIfNeeded()
  await look("removed")

  await page.evaluate(async () => void (await navigator.serviceWorker.ready))
  await page.context().setOffline(true)
  await page.goto(serverUrl)
  await page.getByRole("heading", { name: "Kept in this browser" }).waitFor()
  await look("kept")
  await page.context().setOffline(false)

  await set.coordinate()
  await go("/coordination", ".graph .node")
  await go("/nowhere", "h1")
  await go("/admin", "text=This page is for administrators")
  await page.context().clearCookies()
  await reader.signIn(admin)
  await go("/admin#keys", "td")
  await page.getByRole("button", { name: "New key" }).click()
  await look("new-key")
  await go("/admin#agents", "td")
  await go("/admin#documents", "td")
  await go("/admin#sockets", "td")

  const share = await admin.call<{ url: string }>("POST", `/documents/${document.slug}/shares`, {})
  await page.context().clearCookies()
  await page.goto(serverUrl + new URL(share.url).pathname + new URL(share.url).search)
  await reader.live()
  await look("shared")
  await reader.close()
}, 600_000) // so many looks take long on a busy machine
