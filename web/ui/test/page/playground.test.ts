import axe from "axe-core"
import { join } from "node:path"
import type { Browser, Page, Request } from "playwright-core"
import { afterAll, beforeAll, expect, test } from "vitest"
import { desktop, launch, phone, Reader, serverUrl, shotsDir } from "./world"

let browser: Browser

beforeAll(async () => void (browser = await launch()))
afterAll(() => browser.close())

/** A playground that is loaded and cut off from the network: whatever it asks for from now on is noted. */
async function open(scene: string, options = desktop): Promise<{ reader: Reader; page: Page; asked: string[] }> {
  const reader = await Reader.open(browser, options)
  const { page } = reader
  const note = (request: Request) => asked.push(`${request.method()} ${request.url()}`)
  let asked: string[] = []
  page.on("request", note)
  page.on("websocket", (socket) => asked.push(`socket ${socket.url()}`))
  await page.goto(`${serverUrl}/playground#${scene}`)
  await page.getByRole("button", { name: "Run", exact: true }).waitFor()
  await page.waitForLoadState("networkidle")
  expect(
    asked.filter((line) => !/^GET \S+\/(playground|assets\/[^/]+)$/.test(line.replace(/#.*/, ""))),
    "the page loads its own files and nothing else",
  ).toEqual([])
  asked.length = 0
  await page.context().setOffline(true)
  return { reader, page, asked }
}

async function close({ reader, asked }: { reader: Reader; asked: string[] }): Promise<void> {
  expect(asked, "what was asked for after the page was loaded").toEqual([])
  await reader.close()
}

const verdict = (page: Page) => page.locator("[data-verdict]").first()
const answer = async (page: Page) => {
  const text = await page.locator("pre").first().innerText()
  return { status: Number(/^HTTP\/1.1 (\d+)/.exec(text)?.[1]), body: JSON.parse(text.slice(text.indexOf("{"))) as Record<string, any> }
}
const press = (page: Page, name: string) => page.getByRole("button", { name, exact: true }).click()
const waiters = (page: Page) => page.locator("[data-waiter]").evaluateAll((items) => items.map((item) => item.getAttribute("data-waiter")))
/** Goes on until a move comes to this verdict. */
async function until(page: Page, word: string): Promise<void> {
  for (let moves = 0; moves < 60; moves++) {
    await press(page, "Next")
    if ((await verdict(page).getAttribute("data-verdict")) === word) return
  }
  throw new Error(`no move came to ${word}`)
}

test("two agents and one deploy lock: one is granted, the other told who holds it and when to ask again", async () => {
  const game = await open("deploy")
  const { page } = game
  await press(page, "Run")
  expect(await verdict(page).getAttribute("data-verdict")).toBe("granted")
  expect(await answer(page)).toMatchObject({ status: 200, body: { ok: true, lease: { resource: "lock:deploy/production", holder: "did:cowrite:release-a", fence: 1, ttlMs: 30_000 } } })
  await press(page, "Next")
  expect(await answer(page)).toMatchObject({
    status: 409,
    body: { ok: false, error: "lease_held", holder: "did:cowrite:release-a", position: 1, stampede: { admitted: 1, waitMs: 25 } },
  })
  expect(await waiters(page)).toEqual(["release-b"])
  expect(await page.locator(".graph [data-agent]").evaluateAll((nodes) => nodes.map((node) => node.getAttribute("data-agent")))).toEqual(["release-a", "release-b"])

  // The same request in another name, run by the keyboard.
  const editor = page.getByRole("textbox", { name: "Request" })
  await editor.fill((await editor.inputValue()).replace("release-b", "release-a"))
  expect(await verdict(page).count(), "what was changed has no verdict yet").toBe(0)
  await editor.press("Control+Enter")
  expect(await verdict(page).getAttribute("data-verdict")).toBe("granted")
  expect(await waiters(page)).toEqual([])
  await editor.fill("POST /api/v1/acp/coordination/lease\n\n{")
  await editor.press("Control+Enter")
  expect(await answer(page)).toMatchObject({ status: 400, body: { ok: false, error: "invalid_json" } })

  await press(page, "Start over")
  await press(page, "Play to the end")
  expect(await page.locator("[data-holder]").evaluateAll((items) => items.map((item) => item.getAttribute("data-holder")))).toEqual(["release-b"])
  await close(game)
})

test("a holder that crashed: its lease runs out, costs it trust, and the next in line is served", async () => {
  const game = await open("crash")
  const { page } = game
  await press(page, "Run")
  await press(page, "Next")
  await press(page, "+5s")
  await press(page, "+5s")
  expect(await page.locator("[data-clock]").getAttribute("data-clock")).toBe("10000")
  await page.getByText("the lease of worker on file:report.md runs out, trust 45").waitFor()
  await page.getByText("file:report.md is kept for next").waitFor()
  await press(page, "Play to the end")
  expect(await page.locator('[data-holder="next"]').count()).toBe(1)
  expect((await answer(page)).body).toMatchObject({ agent: "worker", trust: 45, expiries: 1 })
  await close(game)
})

test("breaking a deadlock: the request that would close the circle is refused, with what the holder waits for", async () => {
  const game = await open("deadlock")
  const { page } = game
  await press(page, "Run")
  await until(page, "deadlock")
  expect(await answer(page)).toMatchObject({
    status: 409,
    body: {
      error: "deadlock",
      waitingOn: "y",
      cycle: [
        { actorDid: "did:cowrite:b", resource: "x" },
        { actorDid: "did:cowrite:a", resource: "y" },
      ],
    },
  })
  expect(await page.locator(".edge.refused").count(), "the edge that was not let in").toBe(1)
  expect(await page.locator(".edge.circle").count(), "the circle's edges").toBe(2)
  await press(page, "Play to the end")
  expect((await answer(page)).body["error"]).toBe("deadlock")
  await close(game)
})

test("fifty agents and one file: eight are let in, told to back off for longer and longer", async () => {
  const game = await open("herd")
  const { page } = game
  const waits: number[] = []
  await press(page, "Run")
  for (let agent = 2; agent <= 10; agent++) {
    await press(page, "Next")
    waits.push((await answer(page)).body["stampede"].waitMs as number)
  }
  expect(waits).toEqual([25, 50, 100, 200, 400, 800, 800, 800, 800])
  expect((await answer(page)).body["error"]).toBe("queue_full")
  expect(await waiters(page)).toEqual(["agent-2", "agent-3", "agent-4", "agent-5", "agent-6", "agent-7", "agent-8", "agent-9"])
  await press(page, "Play to the end")
  expect(await page.locator(".move .verdict").count(), "every move has its verdict").toBe(await page.locator(".move").count())
  await close(game)
})

test("a long poll is answered when its turn comes", async () => {
  const game = await open("deploy")
  const { page } = game
  const editor = page.getByRole("textbox", { name: "Request" })
  await press(page, "Run")
  await press(page, "Next")
  await editor.fill((await editor.inputValue()).replace('"ttlMs": 30000', '"ttlMs": 30000,\n  "waitMs": 60000'))
  await press(page, "Run")
  expect(await verdict(page).getAttribute("data-verdict")).toBe("waits")
  await press(page, "+30s")
  await page.getByText("The answer to request 2, which waited").waitFor()
  expect((await answer(page)).body).toMatchObject({ ok: true, lease: { holder: "did:cowrite:release-b", acquiredAt: "2026-04-16T03:00:30.000Z" } })
  await close(game)
})

const screens = [
  { name: "desktop-light", options: { ...desktop, colorScheme: "light" as const } },
  { name: "desktop-dark", options: { ...desktop, colorScheme: "dark" as const } },
  { name: "phone-light", options: { ...phone, colorScheme: "light" as const } },
  { name: "phone-dark", options: { ...phone, colorScheme: "dark" as const } },
]

test.each(screens)("$name: the playground fits, has nothing that keeps people out, and is pictured", async ({ name, options }) => {
  const game = await open("deploy", options)
  const { page } = game
  const look = async (what: string) => {
    await page.evaluate(() => scrollTo(0, 0))
    await page.screenshot({ path: join(shotsDir, `${name}-playground-${what}.png`), fullPage: true })
    expect(await page.evaluate(() => document.documentElement.scrollWidth - innerWidth), `${what} is wider than the screen`).toBeLessThanOrEqual(0)
    await page.evaluate(axe.source)
    const { violations } = await page.evaluate(() => (globalThis as unknown as { axe: typeof axe }).axe.run())
    expect(
      violations.map((violation) => `${violation.impact} ${violation.id}: ${violation.nodes.map((node) => node.html).join(" ")}`),
      `what axe finds in ${what}`,
    ).toEqual([])
  }
  await look("begin")
  await press(page, "Run")
  await press(page, "Next")
  await look("held")
  await press(page, "Breaking a deadlock")
  await until(page, "deadlock")
  await look("deadlock")
  await press(page, "Play to the end")
  await look("deadlock-end")
  await press(page, "Fifty agents and one file")
  for (let agent = 0; agent < 12; agent++) await press(page, "Next")
  await look("herd")
  await close(game)
})
