// The replica of one document, kept by the stock automerge-repo client, and what the page is told of it.

import { diff, getHeads, type Heads } from "@automerge/automerge/slim"
import { Repo, type AutomergeUrl, type DocHandle } from "@automerge/automerge-repo/slim"
import { messageOf } from "../lib/api"
import type { LinkState } from "../lib/events"
import { paced } from "../lib/paced"
import { readContent, type SectionContent } from "../lib/sections"
import type { Agent, DocumentUrl, SectionId } from "../lib/wire"
import { Adapter } from "./adapter"
import { knows, readString, type Root } from "./document"
import type { ReplicaReply, TextRequest } from "./messages"
import { SectionText } from "./sectiontext"
import { Storage } from "./storage"

/** A connection that did not come about within this time is called down. */
const patienceMs = 5_000
/** What is closed waits so long for the server to have everything, in milliseconds; what it has not by then is kept here. */
const closingMs = 10_000
/** What the browser would not keep is brought to it again after so many milliseconds. */
const keepAgainMs = 10_000
/** The page is told of changes at most once in so many milliseconds: a frame. */
const frameMs = 16

export class Keeper {
  readonly #repo: Repo
  readonly #adapter: Adapter
  #handle: DocHandle<Root> | undefined
  /** The server's, as it last told them. It answers only when what it has is on its disk. */
  #serverHeads: Heads | undefined
  /** What is kept is told without waiting for the server. */
  readonly #alone: boolean
  #caughtUp = false
  #linked = false
  #kept = true
  #keepAgain: ReturnType<typeof setTimeout> | undefined
  /** Ends the wait of who closes. */
  #savedOrCut: (() => void) | undefined
  /** Written in since everything was saved last. */
  #written = new Set<SectionId>()
  #told = new Map<SectionId, SectionContent>()
  readonly #texts = new Map<SectionId, SectionText>()
  readonly #patience: ReturnType<typeof setTimeout>
  readonly #publish = paced(frameMs, () => this.#tellContent())

  constructor(
    { url, writer, alone, server }: { url: DocumentUrl; writer: Agent; alone: boolean; server: string },
    private readonly tell: (reply: ReplicaReply) => void,
  ) {
    this.#alone = alone
    this.#adapter = new Adapter(server)
    this.#adapter.on("peer-candidate", () => this.#link("open"))
    this.#adapter.on("peer-disconnected", () => this.#link("down"))
    this.#adapter.refused = (closeCode) => {
      this.#adapter.end()
      tell({ type: "refused", closeCode })
    }
    this.#patience = setTimeout(() => this.#link("down"), patienceMs)
    this.#repo = new Repo({
      network: [this.#adapter],
      storage: new Storage(writer, (kept) => this.#noteKept(kept)),
    })
    this.#repo.synchronizer.on("sync-state", ({ syncState }) => {
      this.#serverHeads = syncState.theirHeads ?? undefined
      // It is told before the document has what came along.
      queueMicrotask(this.#publish)
    })
    this.#follow(url).catch((error: unknown) => tell({ type: "failed", message: messageOf(error) }))
  }

  reconnect(): void {
    this.#adapter.again()
  }

  async flush(): Promise<void> {
    // That something could not be saved, the storage has told.
    if (this.#handle?.isReady()) await this.#repo.flush().catch(() => undefined)
  }

  async close(refused: boolean): Promise<void> {
    await this.flush()
    if (!refused && this.#written.size && this.#linked) {
      await new Promise<void>((resolve) => {
        this.#savedOrCut = resolve
        setTimeout(resolve, closingMs)
      })
    }
    clearTimeout(this.#patience)
    this.#adapter.end()
    await this.flush()
    clearTimeout(this.#keepAgain)
  }

  text(section: SectionId, request: TextRequest): void {
    if (request.type === "begin") this.#texts.set(section, new SectionText(this.#handle!, section, (reply) => this.tell({ type: "text", section, reply })))
    else if (request.type === "end") this.#texts.delete(section)
    else {
      if (request.type === "push") this.#noteWritten(section)
      this.#texts.get(section)?.take(request)
    }
  }

  /** Told before the page hears that its push was taken, so that it never takes for saved what is not. */
  #noteWritten(section: SectionId): void {
    if (this.#written.has(section)) return
    this.#written.add(section)
    this.tell({ type: "unsaved", sections: [...this.#written] })
  }

  async #follow(url: DocumentUrl): Promise<void> {
    // "unavailable" is no end: it is what the client concludes when the server was slow or away, and the
    // document still comes when the socket does.
    const handle = await this.#repo.find<Root>(url as string as AutomergeUrl, { allowableStates: ["ready", "unavailable"] })
    this.#handle = handle
    handle.on("change", ({ patches }) => {
      for (const text of this.#texts.values()) text.changed(patches)
      this.#publish()
    })
    this.#publish()
  }

  #tellContent(): void {
    const [handle, theirs] = [this.#handle, this.#serverHeads]
    if (!handle?.isReady()) return
    const doc = handle.doc()
    const mine = getHeads(doc)
    const saved = theirs !== undefined && mine.length === theirs.length && mine.every((head) => theirs.includes(head))
    if (!this.#caughtUp && theirs && (saved || knows(doc, theirs))) {
      this.#caughtUp = true
      if (!saved) this.#written = sectionsIn(diff(doc, theirs, mine)) // of an earlier page
    }
    if (!this.#caughtUp && !this.#alone) return
    const { title, sections, removed } = readContent(doc, readString)
    const before = this.#told
    this.#told = new Map([...sections, ...removed].map((section) => [section.id, section]))
    const changed = [...this.#told.values()].filter(({ id, text, position }) => text !== before.get(id)?.text || position !== before.get(id)?.position)
    const ids = (of: SectionContent[]) => of.map(({ id }) => id)
    this.tell({ type: "content", news: { title, sections: ids(sections), removed: ids(removed), changed } })
    if (saved) this.#written.clear()
    const unsaved = this.#written.size ? [...this.#written] : undefined
    // Before the server told what it has, nothing is known to be saved.
    if (theirs || unsaved) this.tell({ type: "unsaved", sections: unsaved })
    if (!unsaved) this.#savedOrCut?.()
  }

  /** Tells whether the browser keeps what is written; as long as it does not, it is asked to again. */
  #noteKept(kept: boolean): void {
    if (!kept) this.#keepAgain ??= setTimeout(() => ((this.#keepAgain = undefined), void this.flush()), keepAgainMs)
    if (kept === this.#kept) return
    this.#kept = kept
    this.tell({ type: "kept", kept })
  }

  #link(state: LinkState): void {
    clearTimeout(this.#patience)
    this.#linked = state === "open"
    if (!this.#linked) this.#savedOrCut?.()
    this.tell({ type: "link", state })
  }
}

function sectionsIn(patches: ReturnType<typeof diff>): Set<SectionId> {
  return new Set(patches.flatMap(({ path: [map, id] }) => (map === "sections" && id !== undefined ? [id as SectionId] : [])))
}
