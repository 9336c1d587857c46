// The replica's line to the server.

import type { PeerId, PeerMetadata } from "@automerge/automerge-repo/slim"
import { WebSocketClientAdapter } from "@automerge/automerge-repo-network-websocket"

/**
 * The stock adapter comes back every 5 s for ever, whatever the close code, and even once more after it was
 * disconnected: this one tells of the code, ends when it is told to, and comes back at once when it is told to.
 */
export class Adapter extends WebSocketClientAdapter {
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
