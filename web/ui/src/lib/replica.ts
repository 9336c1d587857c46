// An Automerge replica of one document, kept by the stock automerge-repo client. This module and all behind
// it is loaded after the first text is on the screen: the WebAssembly alone is more than a megabyte.

import { ImmutableString, initializeWasm } from "@automerge/automerge/slim"
import wasmUrl from "@automerge/automerge/automerge.wasm?url"
import { Repo, type AutomergeUrl, type DocHandle, type PeerId } from "@automerge/automerge-repo/slim"
import { WebSocketClientAdapter } from "@automerge/automerge-repo-network-websocket"
import { apiBase } from "./api"
import type { LinkState } from "./events"
import { readContent, type DocumentContent } from "./sections"
import type { DocumentUrl } from "./wire"

export interface ReplicaListener {
  /** The document as it stands now; at most once per frame. */
  content(content: DocumentContent): void
  link(state: LinkState): void
}

/** A connection that did not come about within this time is called down. */
const patienceMs = 5_000

export class Replica {
  #repo: Repo
  #adapter: WebSocketClientAdapter
  #publishing = false
  #closed = false
  #patience: ReturnType<typeof setTimeout>

  private constructor(
    private readonly url: DocumentUrl,
    private readonly listener: ReplicaListener,
  ) {
    const { protocol, host } = window.location
    this.#adapter = new WebSocketClientAdapter(`${protocol === "https:" ? "wss" : "ws"}://${host}${apiBase}/sync`)
    this.#adapter.on("peer-candidate", () => this.#link("open"))
    this.#adapter.on("peer-disconnected", () => this.#link("down"))
    this.#patience = setTimeout(() => this.#link("down"), patienceMs)
    this.#repo = new Repo({ network: [this.#adapter], peerId: `page-${crypto.randomUUID()}` as PeerId })
  }

  static async open(url: DocumentUrl, listener: ReplicaListener): Promise<Replica> {
    await initializeWasm(fetch(wasmUrl) as unknown as Request) // wasm-bindgen takes the promise of a response
    const replica = new Replica(url, listener)
    void replica.#follow()
    return replica
  }

  close(): void {
    this.#closed = true
    clearTimeout(this.#patience)
    if (this.#adapter.socket) this.#adapter.disconnect()
  }

  /** Drops a socket that has gone silent; the adapter connects again by itself. */
  reconnect(): void {
    this.#adapter.socket?.close()
  }

  async #follow(): Promise<void> {
    // "unavailable" is no end: it is what the client concludes when the server was slow or away, and the
    // document still comes when the socket does.
    const handle = await this.#repo.find(this.url as string as AutomergeUrl, { allowableStates: ["ready", "unavailable"] })
    handle.on("change", () => this.#publish(handle))
    if (handle.isReady()) this.#publish(handle)
  }

  #publish(handle: DocHandle<unknown>): void {
    if (this.#publishing) return
    this.#publishing = true
    nextFrame(() => {
      this.#publishing = false
      if (!this.#closed && handle.isReady()) this.listener.content(readContent(handle.doc(), readString))
    })
  }

  #link(state: LinkState): void {
    clearTimeout(this.#patience)
    if (!this.#closed) this.listener.link(state)
  }
}

// In a hidden tab no frame ever comes.
function nextFrame(run: () => void): void {
  if (document.hidden) setTimeout(run, 100)
  else requestAnimationFrame(run)
}

function readString(value: unknown): string | undefined {
  return typeof value === "string" ? value : value instanceof ImmutableString ? value.val : undefined
}
