import { createHash } from "node:crypto"
import { createServer, type Server } from "node:http"
import type { AddressInfo } from "node:net"
import type { Browser, Page } from "playwright-core"
import { afterAll, beforeAll, expect, test } from "vitest"
import type { Document, DocumentRef, SectionId } from "../../src/lib/wire"
import { keepsWords, keptChunks } from "./kept"
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

/** The paths of all that the page keeps for when there is no network, by the cache it is in. */
const keptFiles = (page: Page) =>
  page.evaluate(async () => {
    const names = await caches.keys()
    return Promise.all(names.map(async (name) => (await (await caches.open(name)).keys()).map(({ url }) => new URL(url).pathname)))
  })

test("without a network a document is opened, read and written in, and all converge when it is back", async () => {
  const document = await admin.create("On the train", "# Plan\n\nFor many.\n\n## Goals\n\nOne goal.\n")
  const goals = sectionId(document, "Goals")
  const reader = await Reader.open(browser)
  const { page } = reader
  page.on("dialog", (dialog) => void dialog.accept()) // leaving what is not saved is asked about
  await reader.signIn(ann, `/d/${document.slug}`)
  await reader.live()
  await page.evaluate(async () => void (await navigator.serviceWorker.ready))
  await expect.poll(() => keptChunks(page)).not.toEqual([])

  await page.context().setOffline(true)
  await page.reload()
  await page.getByText("The link to the server is down.").waitFor()
  await page.getByText("One goal.").waitFor()
  await (await reader.write(goals)).press("Control+End")
  const before = await keptChunks(page)
  await page.keyboard.insertText("Ann's words.")
  await page.getByText("Not saved yet: what you wrote in Goals.").waitFor()
  await expect.poll(() => keptChunks(page)).not.toEqual(before)

  // From the list too, and with what was written without a network.
  await page.goto(serverUrl)
  await page.getByRole("link", { name: "On the train" }).click()
  await page.getByText("Ann's words.").waitFor()
  await (await reader.write(goals)).press("Control+End")
  await page.keyboard.type(" And more.")
  await alpha.write(document.slug, goals, (text) => text.replace("One goal", "Two goals"))

  await page.context().setOffline(false)
  const merged = "## Goals\n\nTwo goals.\nAnn's words. And more."
  await expect.poll(async () => (await alpha.section(document.slug, goals)).text).toBe(merged)
  await reader.live()
  await page.getByText("Saved", { exact: true }).waitFor()
  await page.keyboard.press("Escape")
  await reader.section(goals).getByText("Two goals.").waitFor()
  await page.locator('li[data-type="section.edited"]', { hasText: "agent-alpha wrote in Goals" }).waitFor()

  const [files, ...others] = await keptFiles(page)
  expect(others).toEqual([])
  expect(files).toContain("/")
  expect(files!.filter((path) => path !== "/" && !path.startsWith("/assets/")), "kept besides the shell").toEqual([])

  // Who signs out takes along what can be opened.
  await page.getByRole("button", { name: "Sign out" }).click()
  await page.getByText("You are signed out.").waitFor()
  await page.context().setOffline(true)
  await page.goto(`${serverUrl}/d/${document.slug}`)
  await page.getByText("The server cannot be reached.").waitFor()
  expect(await page.getByText("Ann's words.").count()).toBe(0)
  await reader.close()
})

test("a document that this browser does not have cannot be opened without a network, and the page says so", async () => {
  const [here, elsewhere] = [await admin.create("Here", "# Here\n"), await admin.create("Elsewhere", "# Elsewhere\n")]
  const reader = await Reader.open(browser)
  const { page } = reader
  await reader.signIn(ann, `/d/${here.slug}`)
  await reader.live()
  await page.evaluate(async () => void (await navigator.serviceWorker.ready))
  await page.context().setOffline(true)
  await page.goto(`${serverUrl}/d/${elsewhere.slug}`)
  await page.getByText("The server cannot be reached.").waitFor()
  await page.getByRole("link", { name: "All documents", exact: true }).click()
  await page.getByRole("link", { name: "Here", exact: true }).waitFor()
  await reader.close()
})

test("what was deleted, is withheld or was not opened for long is not kept, but for what has something unsaved", async () => {
  const unsaved = await admin.create("Unsaved", "# Unsaved\n")
  const [old, deleted, withheld] = [await admin.create("Old", "# Old\n"), await admin.create("Thrown away", "# Thrown away\n"), await admin.create("Withheld", "# Withheld\n")]
  const reader = await Reader.open(browser)
  const { page } = reader
  const isKept = async ({ documentId, url }: Document) => {
    const list = await page.evaluate(() => localStorage.getItem("cowrite:kept:ann") ?? "")
    const chunks = await keptChunks(page)
    return { listed: list.includes(documentId), replica: chunks.some((key) => url.endsWith(key.split(",")[0]!)) }
  }
  const [whole, nothing] = [{ listed: true, replica: true }, { listed: false, replica: false }]
  await reader.signIn(ann, `/d/${unsaved.slug}`)
  await page.evaluate(async () => void (await navigator.serviceWorker.ready))
  await expect.poll(() => isKept(unsaved)).toEqual(whole)
  await page.goto(`${serverUrl}/d/${old.slug}`)
  await expect.poll(() => isKept(old)).toEqual(whole)
  await page.evaluate((id) => {
    const [last, first] = JSON.parse(localStorage.getItem("cowrite:kept:ann")!) as [Document, Document]
    const later = Array.from({ length: 99 }, (_, i) => ({ ...last, slug: null, documentId: `later-${i}`, url: `automerge:later-${i}` }))
    localStorage.setItem("cowrite:kept:ann", JSON.stringify([...later, last, first]))
    localStorage.setItem("cowrite:unsaved:ann", JSON.stringify({ [id]: "Unsaved" }))
  }, unsaved.documentId)
  await page.goto(`${serverUrl}/d/${withheld.slug}`)
  await expect.poll(() => isKept(old)).toEqual(nothing)
  await expect.poll(() => isKept(withheld)).toEqual(whole)
  expect(await isKept(unsaved)).toEqual(whole)
  await page.goto(`${serverUrl}/d/${deleted.slug}`)
  await expect.poll(() => isKept(deleted)).toEqual(whole)

  await admin.call("DELETE", `/documents/${deleted.slug}`)
  await page.getByText("This document was deleted.").waitFor()
  await expect.poll(() => isKept(deleted)).toEqual(nothing)

  const refusal = { error: "FORBIDDEN", message: "this key does not cover the document" }
  await page.route(`**/api/v1/documents/${withheld.slug}`, (route) => route.fulfill({ status: 403, json: refusal }))
  await page.goto(`${serverUrl}/d/${withheld.slug}`)
  await page.getByText(refusal.message).waitFor()
  await expect.poll(() => isKept(withheld)).toEqual(nothing)
  await reader.close()
})

/** A document in which this browser keeps what Ann wrote without a network, in a tab that is closed again. */
async function leftUnsaved(title: string): Promise<{ document: Document & { slug: DocumentRef }; goals: SectionId; reader: Reader }> {
  const document = await admin.create(title, "# Plan\n\n## Goals\n\nOne goal.\n")
  const goals = sectionId(document, "Goals")
  const reader = await Reader.open(browser)
  const { page } = reader
  page.on("dialog", (dialog) => void dialog.accept()) // leaving what is not saved is asked about
  await reader.signIn(ann, `/d/${document.slug}`)
  await reader.live()
  await page.evaluate(async () => void (await navigator.serviceWorker.ready))
  await (await reader.write(goals)).press("Control+End")
  await page.context().setOffline(true)
  await page.keyboard.insertText("Ann's words.")
  await page.getByText("Not saved yet: what you wrote in Goals.").waitFor()
  await expect.poll(() => keepsWords(page, "Ann's words.")).toBe(true)
  await page.goto("about:blank")
  return { document, goals, reader }
}

test("what is unsaved in a document that was deleted meanwhile is told of, read, and saved when it is restored", async () => {
  const { document, goals, reader } = await leftUnsaved("Deleted meanwhile")
  const { page } = reader
  await admin.call("DELETE", `/documents/${document.slug}`)
  await page.context().setOffline(false)
  for (let visit = 0; visit < 2; visit++) {
    await page.goto(`${serverUrl}/d/${document.slug}`)
    await page.getByText("This document was deleted.").waitFor()
    await page.locator(".banner").getByText("Not saved yet: what you wrote here before. It is kept in this browser until the server has it.").waitFor()
    await page.locator("article").getByText("Ann's words.").waitFor()
    expect(await page.getByRole("button", { name: "Write in" }).count()).toBe(0)
  }
  await admin.call("POST", `/documents/${document.slug}/restore`)
  await expect.poll(async () => (await alpha.section(document.slug, goals)).text).toContain("Ann's words.")
  await reader.live()
  await page.locator(".banner").waitFor({ state: "detached" })
  await page.locator("article").getByText("Ann's words.").waitFor()
  await reader.close()
})

test("what is unsaved in a document that is withheld is told of, not shown, and saved when it may be written in again", async () => {
  const { document, goals, reader } = await leftUnsaved("Withheld meanwhile")
  const { page } = reader
  const refusal = { error: "FORBIDDEN", message: "this key does not cover the document" }
  const path = `**/api/v1/documents/${document.slug}`
  await page.route(path, (route) => route.fulfill({ status: 403, json: refusal }))
  await page.context().setOffline(false)
  for (let visit = 0; visit < 2; visit++) {
    await page.goto(`${serverUrl}/d/${document.slug}`)
    await page.getByText(refusal.message).waitFor()
    await page.getByText("What you wrote in it last is not on the server: it is kept in this browser, and saved when you may write in it again.").waitFor()
  }
  await page.context().setOffline(true)
  await page.goto(serverUrl)
  await page.getByText("The server cannot be reached.").waitFor()
  expect(await page.getByRole("link", { name: "Withheld meanwhile" }).count()).toBe(0)
  await page.goto("about:blank")
  await page.context().setOffline(false)
  await page.unroute(path)
  await page.goto(`${serverUrl}/d/${document.slug}`)
  await expect.poll(async () => (await alpha.section(document.slug, goals)).text).toContain("Ann's words.")
  await reader.close()
})

test("behind a proxy that answers for a server that is down, documents are opened as without a network", async () => {
  const document = await admin.create("Behind a proxy", "# Behind a proxy\n\nKept.\n")
  const reader = await Reader.open(browser)
  const { page } = reader
  await reader.signIn(ann, `/d/${document.slug}`)
  await reader.live()
  await page.evaluate(async () => void (await navigator.serviceWorker.ready))
  await expect.poll(() => keptChunks(page)).not.toEqual([])
  await page.route("**/api/**", (route) => route.fulfill({ status: 502, contentType: "text/html", body: "<h1>Bad gateway</h1>" }))
  await page.reload()
  await page.locator("article").getByText("Kept.").waitFor()
  await page.goto(serverUrl)
  await page.getByText("The server cannot be reached.").waitFor()
  await page.getByRole("link", { name: "Behind a proxy", exact: true }).waitFor()
  await reader.close()
})

test("a new build's shell takes the place of the old one, and one that cannot be had whole does not", async () => {
  const [index, worker] = await Promise.all(["/", "/sw.js"].map(async (path) => (await fetch(serverUrl + path)).text()))
  /** Builds that differ in a mark in their entry. */
  const entryOf = (build: number) => index!.replace("<title>", `<meta name="build" content="${build}"><title>`)
  const versionOf = (entry: string) => createHash("sha256").update(entry).digest("base64")
  let [served, promised] = [1, 1]
  /** Instead of what it is in front of, it answers with this status. */
  let down = 0
  const server: Server = createServer((request, response) => {
    void (async () => {
      const path = request.url!
      response.setHeader("Cache-Control", "no-cache")
      if (down) return response.writeHead(down, { "Content-Type": "text/html" }).end("<h1>Bad gateway</h1>")
      if (path === "/sw.js") {
        response.setHeader("Content-Type", "text/javascript")
        return response.end(worker!.replace(versionOf(index!), versionOf(entryOf(promised))))
      }
      const answer = await fetch(serverUrl + path)
      response.statusCode = answer.status
      response.setHeader("Content-Type", answer.headers.get("Content-Type")!)
      response.end(path === "/" ? entryOf(served) : Buffer.from(await answer.arrayBuffer()))
    })()
  })
  await new Promise<void>((listening) => server.listen(0, "127.0.0.1", listening))
  const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}/`
  const context = await browser.newContext()
  const page = await context.newPage()
  const build = () => page.locator('meta[name="build"]').getAttribute("content")
  const shells = async () => (await page.evaluate(() => caches.keys())).map((name) => name.replace("cowrite-shell-", ""))
  const update = () => page.evaluate(async () => void (await (await navigator.serviceWorker.ready).update().catch(() => undefined)))

  await page.goto(url)
  await page.evaluate(async () => void (await navigator.serviceWorker.register("/sw.js")))
  await page.evaluate(async () => void (await navigator.serviceWorker.ready))
  expect(await shells()).toEqual([versionOf(entryOf(1))])
  served = promised = 2
  await page.reload()
  expect(await build(), "with a network it is the server's").toBe("2")
  await update()
  await expect.poll(shells).toEqual(expect.arrayContaining([1, 2].map((each) => versionOf(entryOf(each)))))
  // Its turn comes when no page of the old one is open any more.
  const opened = async () => {
    await page.goto(url)
    const found = await shells()
    await page.goto("about:blank")
    return found
  }
  await expect.poll(opened, { interval: 500 }).toEqual([versionOf(entryOf(2))])
  await page.goto(url)

  promised = 3 // while the entry is that of 2: the server was replaced in between
  const end = page.evaluate(async () => {
    const registration = await navigator.serviceWorker.ready
    return new Promise<string>((resolve) => {
      registration.addEventListener("updatefound", () => {
        const { installing } = registration
        installing!.addEventListener("statechange", () => installing!.state !== "installed" && installing!.state !== "activating" && resolve(installing!.state))
      })
    })
  })
  await update()
  expect(await end).toBe("redundant")
  expect(await shells()).toEqual([versionOf(entryOf(2))])

  down = 502
  await page.reload()
  expect(await build()).toBe("2")
  await page.getByText("The server cannot be reached.").waitFor()

  server.closeAllConnections()
  await new Promise((closed) => server.close(closed))
  await page.reload()
  expect(await build()).toBe("2")
  await page.getByText("The server cannot be reached.").waitFor()
  await context.close()
})
