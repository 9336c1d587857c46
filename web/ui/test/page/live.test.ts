import * as Automerge from "@automerge/automerge"
import type { Browser } from "playwright-core"
import { afterAll, beforeAll, expect, test } from "vitest"
import type { SectionId } from "../../src/lib/wire"
import { admin, caller, launch, Reader, replica, sectionId, type Caller } from "./world"

type Root = { title: unknown; sections: Record<string, { body: unknown; position?: unknown; removed?: boolean }> }

const markdown = "# Plan\n\nWritten by many.\n\n## Goals\n\n- Ship it\n- Keep it fast\n\n## Risks\n\nNone known.\n"

let browser: Browser
let alpha: Caller
let vera: Caller

beforeAll(async () => {
  browser = await launch()
  alpha = await caller("agent-alpha", "editor")
  vera = await caller("vera", "viewer")
})
afterAll(() => browser.close())

test("a viewer sees a Node client's edit, a lease to its very end and the log, all without reload", async () => {
  const document = await admin.create("Live plan", markdown)
  const goals = sectionId(document, "Goals")
  const reader = await Reader.open(browser)
  const { page } = reader
  await reader.signIn(vera, `/d/${document.slug}`)
  await reader.live()
  await page.evaluate(() => ((globalThis as { sameLoad?: boolean }).sameLoad = true))

  // A stock client types into a list item: its words appear, tinted, and nothing else is drawn again.
  const node = await replica<Root>(alpha, document)
  const untouched = await reader.section(goals).locator("h2").elementHandle()
  const tinted = page.waitForFunction(
    () => globalThis.document.body.textContent?.includes("Ship it very soon") && (CSS.highlights.get("fresh")?.size ?? 0) > 0,
    null,
    { polling: "raf" },
  )
  node.handle.change((root) => {
    const at = (root.sections[goals]!.body as string).indexOf("Ship it") + "Ship it".length
    Automerge.splice(root as never, ["sections", goals, "body"], at, 0, " very soon")
  })
  await tinted
  expect(await untouched!.evaluate((heading) => heading.isConnected)).toBe(true)
  const log = page.getByRole("complementary", { name: "Log" })
  await log.locator('li[data-type="section.edited"]', { hasText: "agent-alpha wrote in Goals" }).waitFor()
  await reader.section(goals).getByText("wrote here").waitFor()

  // A lease: badge with holder, reason and countdown, gone at its end as the server's answer told it.
  const badge = reader.section(goals).locator(".badge")
  const gone = page.evaluate(
    (selector) =>
      new Promise<number>((resolve) => {
        let seen = false
        const look = () => {
          const there = globalThis.document.querySelector(selector) !== null
          seen ||= there
          if (seen && !there) return resolve(Date.now())
          requestAnimationFrame(look)
        }
        look()
      }),
    `#s-${goals} .badge`,
  )
  const lease = await alpha.lease(document.slug, goals, 8, "tightening the goals")
  const end = Date.now() + lease.expiresInMs
  await badge.waitFor()
  expect(await badge.innerText()).toMatch(/agent-alpha\s+holds the lease/)
  expect(await badge.innerText()).toContain("tightening the goals")
  expect(await badge.locator(".countdown").innerText()).toMatch(/^[1-8]s$/)
  await log.getByText("agent-alpha took the lease on Goals for 8 secs: tightening the goals").waitFor()
  const late = (await gone) - end
  expect(late, "milliseconds after the lease's end").toBeGreaterThan(-100)
  expect(late, "milliseconds after the lease's end").toBeLessThan(1_500)
  await log.getByText("agent-alpha’s lease on Goals ran out").waitFor()

  // Sections come, move and go.
  const added = await alpha.call<{ id: SectionId }>("POST", `/documents/${document.slug}/sections`, { text: "## Timeline\n\nSoon.\n", after: goals })
  await reader.section(added.id).waitFor()
  expect(await reader.headings()).toEqual(["Plan", "Goals", "Timeline", "Risks"])
  await alpha.call("POST", `/documents/${document.slug}/sections/${added.id}/move`, { after: "" })
  await expect.poll(() => reader.headings()).toEqual(["Timeline", "Plan", "Goals", "Risks"])
  await alpha.call("DELETE", `/documents/${document.slug}/sections/${added.id}`)
  await expect.poll(() => reader.headings()).toEqual(["Plan", "Goals", "Risks"])
  await log.getByText("agent-alpha removed").waitFor()

  // An entry of the log leads to its section.
  await log.locator('li[data-type="section.edited"] a').first().click()
  expect(new URL(page.url()).hash).toBe(`#s-${goals}`)

  expect(await page.evaluate(() => (globalThis as { sameLoad?: boolean }).sameLoad), "the page was not loaded again").toBe(true)
  await node.close()
  await reader.close()
})

test("whatever a replica writes, the page shows what it can", async () => {
  const document = await admin.create("Odd", markdown)
  const reader = await Reader.open(browser)
  await reader.signIn(vera, `/d/${document.slug}`)
  await reader.live()
  const node = await replica<Root & Record<string, unknown>>(alpha, document)
  node.handle.change((root) => {
    root.title = new Automerge.ImmutableString("Scalar title")
    root["unknown"] = { deep: [1, new Uint8Array(3), new Date()] }
    const sections = root.sections as Record<string, unknown>
    sections["a-scalar"] = { body: new Automerge.ImmutableString("## Scalar body\n") }
    sections["a-number"] = 7
    sections["a-list"] = []
    sections["no-body"] = { position: "a" }
    sections["Bad Id"] = { body: "never shown", position: "a" }
  })
  await reader.section("a-scalar" as SectionId).waitFor()
  expect((await reader.headings()).at(-1), "no position: last").toBe("Scalar body")
  await expect.poll(() => reader.page.title()).toBe("Scalar title · Cowrite")
  expect(await reader.page.getByText("never shown").count()).toBe(0)
  await node.close()
  await reader.close()
})

test("the page says when the link is down, and has missed nothing when it is back", async () => {
  const document = await admin.create("Link", markdown)
  const goals = sectionId(document, "Goals")
  const reader = await Reader.open(browser)
  const { page } = reader
  await reader.signIn(vera, `/d/${document.slug}`)
  await reader.live()

  await page.context().setOffline(true)
  await page.getByText("The link to the server is down.").waitFor()
  for (let i = 1; i <= 5; i++) await alpha.call("POST", `/documents/${document.slug}/events`, { text: `message ${i}` })
  await alpha.write(document.slug, goals, (text) => text.replace("Ship it", "Ship it while away"))
  await page.context().setOffline(false)
  await reader.live()
  await page.getByText("Ship it while away").waitFor()
  const messages = page.locator('li[data-type="message.posted"] p')
  await expect.poll(() => messages.count()).toBe(5)
  expect(await messages.allInnerTexts()).toEqual([5, 4, 3, 2, 1].map((i) => expect.stringMatching(new RegExp(`: message ${i}$`))))
  await reader.close()
})

test("a deleted document says so, and is there again by itself when somebody restores it", async () => {
  const document = await admin.create("Doomed", markdown)
  const goals = sectionId(document, "Goals")
  const [there, later] = await Promise.all([Reader.open(browser), Reader.open(browser)])
  await there.signIn(vera, `/d/${document.slug}`)
  await there.live()
  await admin.call("DELETE", `/documents/${document.slug}`)
  await there.page.getByText("This document was deleted.").waitFor()
  // Who opens it only now.
  await later.signIn(vera, `/d/${document.slug}`)
  await later.page.getByRole("alert").waitFor()
  expect(await later.page.getByText("Ship it").count()).toBe(0)

  await admin.call("POST", `/documents/${document.slug}/restore`)
  await alpha.write(document.slug, goals, (text) => text.replace("Ship it", "Ship it again"))
  for (const { page, live } of [there, later].map((reader) => ({ page: reader.page, live: reader.live() }))) {
    await live
    await page.getByText("Ship it again").waitFor()
    await page.getByRole("status").getByText("The document is back: Doomed.").waitFor({ state: "attached" })
    expect(await page.getByText("This document was deleted.").count()).toBe(0)
  }
  await Promise.all([there.close(), later.close()])
})
