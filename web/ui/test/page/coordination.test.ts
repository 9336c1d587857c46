import type { Browser } from "playwright-core"
import { afterAll, beforeAll, expect, test } from "vitest"
import { admin, caller, launch, Reader, sectionId, serverUrl, type Caller } from "./world"

let browser: Browser
let ann: Caller

beforeAll(async () => {
  browser = await launch()
  ann = await caller("ann", "editor")
})
afterAll(() => browser.close())

test("who waits for whom is drawn and told, live, and each part of it leads to its place", async () => {
  const tag = crypto.randomUUID().slice(0, 8)
  const [first, second, third] = [`first-${tag}`, `second-${tag}`, `third-${tag}`]
  const [one, two, three] = [await caller(first, "editor"), await caller(second, "editor"), await caller(third, "editor")]
  const document = await admin.create(`Coordinated ${tag}`, "# Plan\n\n## Goals\n\nOne goal.\n")
  const goals = `section:${document.slug}/${sectionId(document, "Goals")}`
  const lock = `lock:deploy/${tag}`
  const reader = await Reader.open(browser)
  const { page } = reader
  await reader.signIn(ann, "/coordination")
  await page.getByText("Live", { exact: true }).waitFor()
  const card = (resource: string) => page.locator(`[data-resource="${resource}"]`)
  expect(await card(lock).count()).toBe(0)

  await one.coordinate("lease", lock, { ttlMs: 300_000, reason: "deploying 4.2" })
  await two.coordinate("lease", goals, { ttlMs: 300_000 })
  await two.coordinate("lease", lock)
  await card(lock).locator(`[data-waiter="${second}"]`).waitFor()
  await card(lock).getByText("deploying 4.2").waitFor()
  await card(lock).getByText(/^[45]m(, | )?(\d+s)? left$/).waitFor()
  expect(await card(lock).locator("[data-holder]").getAttribute("data-holder")).toBe(first)
  await three.coordinate("lease", goals)
  await card(goals).locator(`[data-waiter="${third}"]`).waitFor()

  // The picture, the table that says the same, and where both lead.
  const graph = page.getByRole("region").filter({ has: page.getByRole("heading", { name: "Who waits for whom" }) })
  for (const agent of [first, second, third]) await graph.locator(`a[data-agent="${agent}"]`).waitFor()
  await page.getByText("The same as a table").click()
  await page.getByRole("row", { name: `${third} ${second} ${goals.slice("section:".length)}` }).waitFor()
  await graph.getByRole("link", { name: `${lock}: ${second} waits for ${first}` }).click()
  await page.waitForURL(/\/coordination#resource-/)
  await graph.locator(`a[data-agent="${second}"]`).click()
  await page.waitForURL(`${serverUrl}/coordination#agent-${second}`)
  await page.getByRole("row", { name: new RegExp(`^${second} 50 no change yet 1 1$`) }).waitFor()

  // What would close a circle is refused, and told with its circle.
  await expect(one.coordinate("lease", goals)).rejects.toThrow("deadlock")
  const circles = page.getByRole("region", { name: "Circles of waiting, refused" })
  const circle = circles.locator(".deadlock", { hasText: first })
  await circle.getByText("it would have waited for ever").waitFor()
  expect(await circle.locator(".edge.refused").count()).toBe(1)

  // A lease that is given back serves who waited, and is told.
  await one.coordinate("release", lock)
  await page.locator('li[data-action="reserve"]', { hasText: tag }).getByText("is kept for").waitFor()
  await two.coordinate("lease", lock)
  await card(lock).locator(`[data-holder="${second}"]`).waitFor()
  await page.locator('li[data-action="grant"]', { hasText: second }).first().waitFor()

  await card(goals).getByRole("link").first().click()
  await page.waitForURL(`${serverUrl}/d/${document.slug}#s-${sectionId(document, "Goals")}`)
  await reader.section(sectionId(document, "Goals")).getByText("One goal.").waitFor()
  await reader.close()
})

test("where nothing is held it says what will be here, and a link that is down is told", async () => {
  const document = await admin.create("Quiet", "# Quiet\n")
  const share = await admin.call<{ url: string }>("POST", `/documents/${document.slug}/shares`, {})
  const reader = await Reader.open(browser)
  const { page } = reader
  await page.goto(serverUrl + new URL(share.url).pathname + new URL(share.url).search)
  await reader.live()
  await page.goto(`${serverUrl}/coordination`)
  await page.getByText("Nobody holds anything now.").waitFor()
  await admin.call("POST", `/documents/${document.slug}/sections/${sectionId(document, "Quiet")}/lease`, { leaseDurationSeconds: 60 })
  await page.locator("[data-holder]").waitFor()
  await page.route("**/api/v1/**", (route) => route.abort())
  await page.getByText("Link down").waitFor()
  await page.unroute("**/api/v1/**")
  await page.getByText("Live", { exact: true }).waitFor()
  await reader.close()
})
