// An Automerge replica of one document, kept by the stock automerge-repo client. Only who writes needs one. This module
// and all behind it is loaded after the first text is on the screen: the WebAssembly alone is more than a megabyte.

import { diff, getHeads, hasHeads, ImmutableString, initializeWasm, type Heads } from "@automerge/automerge/slim"
import wasmUrl from "@automerge/automerge/automerge.wasm?url"
import { Repo, type AutomergeUrl, type DocHandle, type PeerId, type PeerMetadata } from "@automerge/automerge-repo/slim"
import { WebSocketClientAdapter } from "@automerge/automerge-repo-network-websocket"
import { IndexedDBStorageAdapter } from "@automerge/automerge-repo-storage-indexeddb"
import { apiBase } from "./api"
import type { LinkState } from "./events"
import { nextFrame } from "./frame"
import { localName, localStore, untilClosed } from "./local"
import { readContent, type DocumentContent } from "./sections"
import type { Agent, DocumentUrl, SectionId } from "./wire"

/** What a replica's document is expected to be. Anything may be in it all the same: the code that reads it checks. */
export interface Root {
  sections: Record<SectionId, { body: string | ImmutableString }>
}

export type ReplicaHandle = DocHandle<Root>

export interface ReplicaListener {
  /** The document as it stands now; at most once per frame, and never older than what the server had at first contact. */
  content(content: DocumentContent, handle: ReplicaHandle): void
  link(state: LinkState): void
  /** The sections with changes that are not known to be on the server's disk; without them, everything is. */
  unsaved(sections: SectionId[] | undefined): void
  /** The server closed the socket with a code that says not to come back: 4000 plus the status that HTTP has for it. */
  refused(closeCode: number): void
}

/** A connection that did not come about within this time is called down. */
const patienceMs = 5_000

/**
 * The stock adapter comes back every 5 s for ever, whatever the close code, and even once more after it was
 * disconnected: this one tells of the code, ends when it is told to, and comes back at once when it is told to.
 */
class Adapter extends WebSocketClientAdapter {
  refused: (closeCode: number) => void = () => {}
  #ended = false

  end(): void {
    this.#ended = true
    if (this.socket) this.disconnect()
  }

  /** Replaces the socket: one over a line that is cut would take a minute to find out. */
  again(): void {
    if (!this.peerId) return
    if (this.socket?.readyState === WebSocket.OPEN) this.disconnect()
    this.connect(this.peerId, this.peerMetadata)
  }

  override connect(peerId: PeerId, peerMetadata?: PeerMetadata): void {
    if (this.#ended || this.socket?.readyState === WebSocket.OPEN) return
    super.connect(peerId, peerMetadata)
    this.socket?.addEventListener("close", ({ code }: { code: number }) => {
      if (code >= 4400 && code < 4500) this.refused(code)
    })
  }
}

export class Replica {
  #repo: Repo
  #adapter: Adapter
  #handle: ReplicaHandle | undefined
  /** The server's, as it last told them. It answers only when what it has is on its disk. */
  #serverHeads: Heads | undefined
  #caughtUp = false
  #publishing = false
  #closed = false
  #patience: ReturnType<typeof setTimeout>

  private constructor(
    private readonly url: DocumentUrl,
    writer: Agent,
    private readonly listener: ReplicaListener,
  ) {
    const { protocol, host } = window.location
    this.#adapter = new Adapter(`${protocol === "https:" ? "wss" : "ws"}://${host}${apiBase}/sync`)
    this.#adapter.on("peer-candidate", () => this.#link("open"))
    this.#adapter.on("peer-disconnected", () => this.#link("down"))
    this.#adapter.refused = (closeCode) => {
      this.close()
      listener.refused(closeCode)
    }
    this.#patience = setTimeout(() => this.#link("down"), patienceMs)
    this.#repo = new Repo({
      network: [this.#adapter],
      storage: new IndexedDBStorageAdapter(localName(writer), localStore),
    })
    this.#repo.synchronizer.on("sync-state", ({ syncState }) => {
      this.#serverHeads = syncState.theirHeads ?? undefined
      // It is told before the document has what came along.
      queueMicrotask(() => this.#publish())
    })
    window.addEventListener("offline", this.#again)
    window.addEventListener("online", this.#again)
    document.addEventListener("visibilitychange", this.#flush)
  }

  /** What a writer writes is kept in this browser too, under the writer's name, until the server has it. */
  static async open(url: DocumentUrl, writer: Agent, listener: ReplicaListener): Promise<Replica> {
    await initializeWasm(fetch(wasmUrl) as unknown as Request) // wasm-bindgen takes the promise of a response
    const replica = new Replica(url, writer, listener)
    void replica.#follow()
    return replica
  }

  close(): void {
    if (this.#closed) return
    this.#closed = true
    clearTimeout(this.#patience)
    window.removeEventListener("offline", this.#again)
    window.removeEventListener("online", this.#again)
    document.removeEventListener("visibilitychange", this.#flush)
    this.#adapter.end()
    if (this.#handle?.isReady()) untilClosed(this.#repo.flush())
  }

  /** Replaces a socket that may be dead. */
  reconnect(): void {
    this.#adapter.again()
  }

  #again = () => this.#adapter.again()
  /** A tab that is hidden may be gone the next moment. */
  #flush = () => {
    if (document.hidden && this.#handle?.isReady()) void this.#repo.flush()
  }

  async #follow(): Promise<void> {
    // "unavailable" is no end: it is what the client concludes when the server was slow or away, and the
    // document still comes when the socket does.
    const handle = await this.#repo.find<Root>(this.url as string as AutomergeUrl, { allowableStates: ["ready", "unavailable"] })
    this.#handle = handle
    handle.on("change", () => this.#publish())
    this.#publish()
  }

  #publish(): void {
    if (this.#publishing) return
    this.#publishing = true
    nextFrame(() => {
      this.#publishing = false
      const handle = this.#handle
      if (this.#closed || !handle?.isReady() || !this.#serverHeads) return
      this.#caughtUp ||= hasHeads(handle.doc(), this.#serverHeads)
      if (!this.#caughtUp) return
      this.listener.content(readContent(handle.doc(), readString), handle)
      this.listener.unsaved(this.#unsaved(handle))
    })
  }

  #unsaved(handle: ReplicaHandle): SectionId[] | undefined {
    const doc = handle.doc()
    const [mine, theirs] = [getHeads(doc), this.#serverHeads!]
    if (mine.length === theirs.length && mine.every((head) => theirs.includes(head))) return undefined
    const known = theirs.filter((head) => hasHeads(doc, [head]))
    const sections = diff(doc, known, mine).flatMap(({ path: [map, id] }) => (map === "sections" && id !== undefined ? [id as SectionId] : []))
    return [...new Set(sections)]
  }

  #link(state: LinkState): void {
    clearTimeout(this.#patience)
    if (!this.#closed) this.listener.link(state)
  }
}

function readString(value: unknown): string | undefined {
  return typeof value === "string" ? value : value instanceof ImmutableString ? value.val : undefined
}
