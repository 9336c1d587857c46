// What the tests of the page share: a running server, its administrator, Chromium and stock Node clients.

import { setTimeout as pass } from "node:timers/promises"
import { Repo, type AutomergeUrl, type DocHandle, type PeerId } from "@automerge/automerge-repo"
import { WebSocketClientAdapter } from "@automerge/automerge-repo-network-websocket"
import { chromium, type Browser, type BrowserContextOptions, type Locator, type Page } from "playwright-core"
import { expect } from "vitest"
import type { Document, DocumentRef, Lease, SectionId, SectionWithVersion, Written } from "../../src/lib/wire"

function required(name: string): string {
  const value = process.env[name]
  if (!value) throw new Error(`${name} is not set: these tests are started by "go test ./web/ui", which runs a server for them`)
  return value
}

export const serverUrl = required("COWRITE_URL")
const adminKey = required("COWRITE_ADMIN_KEY")
/** Where pictures of the page go. */
export const shotsDir = required("COWRITE_SHOTS")

/** Somebody who calls the server over REST. */
export class Caller {
  constructor(
    readonly key: string,
    readonly agent = "",
  ) {}

  /** Asks again as long as the server is too busy, and as late as it says. */
  async call<T>(method: string, path: string, body?: unknown): Promise<T> {
    const response = await fetch(`${serverUrl}/api/v1${path}`, {
      method,
      headers: { Authorization: `Bearer ${this.key}`, "Content-Type": "application/json" },
      ...(body === undefined ? {} : { body: JSON.stringify(body) }),
    })
    const answer = await response.text()
    const later = response.status === 503 && response.headers.get("Retry-After")
    if (later) {
      await pass(Number(later) * 1_000)
      return this.call(method, path, body)
    }
    if (!response.ok) throw new Error(`${method} ${path}: ${response.status} ${answer}`)
    return JSON.parse(answer) as T
  }

  create(title: string, markdown: string): Promise<Document & { slug: DocumentRef }> {
    return this.call("POST", "/documents", { title, markdown })
  }

  section(ref: DocumentRef, id: SectionId): Promise<SectionWithVersion> {
    return this.call("GET", `/documents/${ref}/sections/${id}`)
  }

  /** Changes a section's text as it stands now. */
  async write(ref: DocumentRef, id: SectionId, change: (text: string) => string): Promise<Written> {
    const { text, version } = await this.section(ref, id)
    return this.call("PUT", `/documents/${ref}/sections/${id}`, { text: change(text), base: version })
  }

  /** Leases, renews or releases any resource. Who is refused has a place in its queue, but for a circle of waiting. */
  async coordinate(what: "lease" | "renew" | "release", resource: string, more: object = {}): Promise<void> {
    try {
      await this.call("POST", `/acp/coordination/${what}`, { resource, actorDid: this.agent, ...more })
    } catch (error) {
      if (!String(error).includes('"lease_held"')) throw error
    }
  }

  lease(ref: DocumentRef, id: SectionId, leaseDurationSeconds: number, reason?: string): Promise<Lease> {
    return this.call("POST", `/documents/${ref}/sections/${id}/lease`, { leaseDurationSeconds, reason })
  }
}

export const admin = new Caller(adminKey)

export async function caller(agent: string, role: "viewer" | "editor", kind: "agent" | "person" = "agent"): Promise<Caller> {
  const { key } = await admin.call<{ key: string }>("POST", "/keys", { agent, role, kind })
  return new Caller(key, agent)
}

/** The id of the section with this heading. */
export function sectionId(document: Document, heading: string): SectionId {
  const found = document.sections.find((section) => section.heading === heading)
  if (!found) throw new Error(`no section ${heading} in ${document.sections.map((section) => section.heading).join(", ")}`)
  return found.id
}

/** A stock automerge-repo client in Node with a replica of the document. */
export async function replica<T>(who: Caller, document: Document): Promise<{ handle: DocHandle<T>; close(): Promise<void> }> {
  const adapter = new WebSocketClientAdapter(`${serverUrl.replace("http", "ws")}/api/v1/sync?token=${who.key}`)
  const repo = new Repo({ network: [adapter], peerId: `node-${crypto.randomUUID()}` as PeerId })
  const handle = await repo.find<T>(document.url as string as AutomergeUrl)
  return { handle, close: () => repo.shutdown() }
}

export async function launch(): Promise<Browser> {
  return chromium.launch({
    executablePath: process.env["CHROMIUM"] ?? "/usr/bin/chromium",
    args: [
      ..."--headless --no-sandbox --disable-gpu --disable-quic --no-first-run".split(" "),
      ..."--disable-background-networking --disable-component-update --disable-sync".split(" "),
    ],
  })
}

export const desktop: BrowserContextOptions = { viewport: { width: 1360, height: 900 } }
export const phone: BrowserContextOptions = { viewport: { width: 360, height: 740 }, deviceScaleFactor: 2, hasTouch: true, isMobile: true }

/** A reader with a browser of their own, in which nothing may go wrong unseen. */
export class Reader {
  readonly faults: string[] = []

  private constructor(readonly page: Page) {
    page.on("pageerror", (error) => this.faults.push(error.message))
    page.on("console", (message) => {
      if (message.type() === "error" && /Content Security Policy|Refused to/.test(message.text())) this.faults.push(message.text())
    })
  }

  static async open(browser: Browser, options: BrowserContextOptions = desktop): Promise<Reader> {
    const context = await browser.newContext({ locale: "en-GB", ...options })
    context.setDefaultTimeout(60_000) // machines that run tests are busy
    return new Reader(await context.newPage())
  }

  async signIn(who: Caller, path = "/"): Promise<void> {
    await this.page.goto(serverUrl + path)
    await this.page.getByLabel("Your key").fill(who.key)
    await this.page.getByRole("button", { name: "Sign in" }).click()
    await this.page.getByRole("link", { name: "Cowrite: all documents" }).waitFor()
  }

  /** Waits until the document is followed live. */
  async live(): Promise<void> {
    await this.page.locator(".link.open").waitFor({ timeout: 30_000 })
  }

  section(id: SectionId) {
    return this.page.locator(`#s-${id}`)
  }

  /** Opens a section to be written in, as the keyboard would, with the caret at its beginning. */
  async write(id: SectionId): Promise<Locator> {
    await this.section(id).getByRole("button", { name: "Write in" }).press("Enter")
    const field = this.section(id).getByRole("textbox", { name: "Text of" })
    await field.and(this.page.locator(":focus")).waitFor()
    return field
  }

  async headings(): Promise<string[]> {
    return this.page.locator("article section").evaluateAll((sections) => sections.map((section) => section.getAttribute("aria-label") ?? ""))
  }

  async close(): Promise<void> {
    await this.page.context().close()
    expect(this.faults, "faults in the page").toEqual([])
  }
}
