import { crc32, deflateSync } from "node:zlib"
import * as Automerge from "@automerge/automerge"
import type { Browser } from "playwright-core"
import { afterAll, beforeAll, expect, test } from "vitest"
import { admin, caller, launch, Reader, replica, sectionId, serverUrl, type Caller } from "./world"

const hits = "globalThis.hit=1"
const attack = [
  `<script>${hits}</script>`,
  `<img src=x onerror="${hits}">`,
  `<svg onload="${hits}"></svg>`,
  `<iframe srcdoc="<script>parent.hit=1</script>"></iframe>`,
  `[link](javascript:${hits})`,
  `[link](data:text/html,<script>${hits}</script>)`,
  `![image](javascript:${hits})`,
  `![image](https://tracker.example/pixel.png)`,
].join("\n\n")

let browser: Browser
let alpha: Caller
let vera: Caller

beforeAll(async () => {
  browser = await launch()
  alpha = await caller("agent-alpha", "editor")
  vera = await caller("vera", "viewer")
})
afterAll(() => browser.close())

test("no script gets in through a text, a title, a reason or a message, and nothing is fetched from elsewhere", async () => {
  const document = await admin.create(`<img src=x onerror="${hits}">`, `# Attack\n\n${attack}\n\n## <script>${hits}</script>\n\nBehind it.\n`)
  const first = sectionId(document, "Attack")
  const reader = await Reader.open(browser)
  const { page } = reader
  const elsewhere: string[] = []
  page.on("request", (request) => {
    if (!request.url().startsWith(serverUrl)) elsewhere.push(request.url())
  })
  await reader.signIn(vera)
  await page.getByText("onerror").first().waitFor()
  await page.goto(`${serverUrl}/d/${document.slug}`)
  await reader.live()

  const node = await replica<{ sections: Record<string, { body: string }> }>(alpha, document)
  node.handle.change((root) => Automerge.splice(root as never, ["sections", first, "body"], 0, 0, `${attack}\n\nLive attack.\n\n`))
  await alpha.lease(document.slug, first, 60, `<img src=x onerror="${hits}">`)
  await alpha.call("POST", `/documents/${document.slug}/events`, { text: `<script>${hits}</script>` })
  await page.getByText("Live attack.").waitFor()
  await page.locator('li[data-type="message.posted"]').waitFor()
  await reader.section(first).locator(".badge").waitFor()
  for (const link of await page.locator(".prose a").all()) await link.click({ modifiers: ["Alt"], noWaitAfter: true })

  expect(await page.evaluate(() => (globalThis as { hit?: number }).hit)).toBeUndefined()
  expect(await page.locator("article script, article img, article svg, article iframe, aside img, header img").count()).toBe(0)
  expect(elsewhere).toEqual([])
  await node.close()
  await reader.close()
})

test("deep lists, writing from the right, emoji, wide lines and huge images degrade, and the page answers", async () => {
  const nested = Array.from({ length: 50 }, (_, depth) => `${"  ".repeat(depth)}- level ${depth}`).join("\n")
  const image = `data:image/png;base64,${blankPng(12_000).toString("base64")}`
  const document = await admin.create(
    "Odd",
    `# Deep\n\n${nested}\n\n# Right\n\nשלום לכולם\n\n# Faces\n\n${"👩‍👩‍👧🏽".repeat(2_000)}\n\n# Wide\n\n${"word".repeat(20_000)}\n\n# Huge\n\n![a blank](${image})\n`,
  )
  const reader = await Reader.open(browser)
  const { page } = reader
  await reader.signIn(vera, `/d/${document.slug}`)
  await reader.live()
  await page.getByText("level 49").waitFor()
  const right = page.getByText("שלום לכולם")
  expect(await right.evaluate((paragraph) => paragraph.ownerDocument.defaultView!.getComputedStyle(paragraph).unicodeBidi)).toBe("plaintext")
  const blank = page.getByRole("img", { name: "a blank" })
  await blank.scrollIntoViewIfNeeded()
  await expect.poll(() => blank.evaluate((img) => (img as HTMLImageElement).naturalWidth)).toBe(12_000)
  expect(await page.evaluate(() => globalThis.document.documentElement.scrollWidth), "nothing makes the page wider than the screen").toBeLessThanOrEqual(1360)
  await reader.close()
})

/** A black image so many pixels wide and high, which takes a few kilobytes. */
function blankPng(size: number): Buffer {
  const chunk = (type: string, data: Buffer) => {
    const body = Buffer.concat([Buffer.from(type), data])
    const framed = Buffer.alloc(body.length + 8)
    framed.writeUInt32BE(data.length)
    body.copy(framed, 4)
    framed.writeUInt32BE(crc32(body), body.length + 4)
    return framed
  }
  const header = Buffer.alloc(13)
  header.writeUInt32BE(size)
  header.writeUInt32BE(size, 4)
  header[8] = 1 // bits a pixel, grey
  const rows = deflateSync(Buffer.alloc(size * (1 + size / 8)), { level: 9 })
  return Buffer.concat([Buffer.from("\x89PNG\r\n\x1a\n", "latin1"), chunk("IHDR", header), chunk("IDAT", rows), chunk("IEND", Buffer.alloc(0))])
}

test("10,000 lines and 500 sections: the first text is there before all is drawn, and the last section is one click away", async () => {
  const lines = `# Long\n\n${"A line of text that has some length to it.\n\n".repeat(10_000)}`
  const sections = Array.from({ length: 500 }, (_, i) => `## Section ${i}\n\nSome text of section ${i}, right to left too: שלום, and 👩‍👩‍👧.\n\n`).join("")
  const document = await admin.create("Long", lines + sections)
  const reader = await Reader.open(browser)
  const { page } = reader
  await reader.signIn(vera, `/d/${document.slug}`)
  await page.getByText("A line of text").first().waitFor()
  await page.getByRole("navigation", { name: "Sections" }).getByRole("link", { name: "Section 499" }).click()
  const last = reader.section(sectionId(document, "Section 499"))
  await last.getByText("Some text of section 499").waitFor()
  await expect.poll(() => last.evaluate((section) => section.getBoundingClientRect().top < innerHeight)).toBe(true)
  await reader.live()
  await reader.close()
})
