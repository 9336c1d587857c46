// An Automerge replica of one document, kept by the stock automerge-repo client. This module and all behind
// it is loaded after the first text is on the screen: the WebAssembly alone is more than a megabyte.

import { ImmutableString, initializeWasm } from "@automerge/automerge/slim"
import wasmUrl from "@automerge/automerge/automerge.wasm?url"
import { Repo, type AutomergeUrl, type DocHandle, type PeerId, type PeerMetadata } from "@automerge/automerge-repo/slim"
import { WebSocketClientAdapter } from "@automerge/automerge-repo-network-websocket"
import { apiBase } from "./api"
import type { LinkState } from "./events"
import { readContent, type DocumentContent } from "./sections"
import type { DocumentUrl } from "./wire"

export interface ReplicaListener {
  /** The document as it stands now; at most once per frame. */
  content(content: DocumentContent): void
  link(state: LinkState): void
  /** The server closed the socket with a code that says not to come back: 4000 plus the status that HTTP has for it. */
  refused(closeCode: number): void
}

/** A connection that did not come about within this time is called down. */
const patienceMs = 5_000

/**
 * The stock adapter comes back every 5 s for ever, whatever the close code, and even once more after it was
 * disconnected: this one tells of the code, and ends when it is told to.
 */
class Adapter extends WebSocketClientAdapter {
  refused: (closeCode: number) => void = () => {}
  #ended = false

  end(): void {
    this.#ended = true
    if (this.socket) this.disconnect()
  }

  override connect(peerId: PeerId, peerMetadata?: PeerMetadata): void {
    if (this.#ended) return
    super.connect(peerId, peerMetadata)
    this.socket?.addEventListener("close", ({ code }: { code: number }) => {
      if (code >= 4400 && code < 4500) this.refused(code)
    })
  }
}

export class Replica {
  #repo: Repo
  #adapter: Adapter
  #publishing = false
  #closed = false
  #patience: ReturnType<typeof setTimeout>

  private constructor(
    private readonly url: DocumentUrl,
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
    this.#repo = new Repo({ network: [this.#adapter] })
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
    this.#adapter.end()
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
