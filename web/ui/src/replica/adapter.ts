// The replica's line to the server.

import type { PeerId, PeerMetadata } from "@automerge/automerge-repo/slim"
import { WebSocketClientAdapter } from "@automerge/automerge-repo-network-websocket"

/** A handshake that takes longer is given up, in milliseconds. */
const handshakeMs = 60_000
/** Who joined too late, because the socket opened while this thread was busy, may join again. */
const joinTimeout = 4408

/**
 * The stock adapter comes back every 5 s for ever, whatever the close code, also while its socket is still being opened,
 * and even once more after it was disconnected: this one tells of the code, lets a slow handshake come to its end, ends when
 * it is told to, and comes back at once when it is told to.
 */
export class Adapter extends WebSocketClientAdapter {
  refused: (closeCode: number) => void = () => {}
  #ended = false
  /** When the socket was made, as performance.now() tells it. */
  #begun = 0

  end(): void {
    this.#ended = true
    if (this.socket) this.disconnect()
  }

  /** Replaces the socket: one over a line that is cut would take a minute to find out. */
  again(): void {
    if (!this.peerId) return
    if (this.socket?.readyState === WebSocket.OPEN) this.disconnect()
    this.#replace(this.peerId, this.peerMetadata)
  }

  override connect(peerId: PeerId, peerMetadata?: PeerMetadata): void {
    const state = this.socket?.readyState
    if (state === WebSocket.OPEN || (state === WebSocket.CONNECTING && performance.now() - this.#begun < handshakeMs)) return
    this.#replace(peerId, peerMetadata)
  }

  #replace(peerId: PeerId, peerMetadata?: PeerMetadata): void {
    if (this.#ended) return
    const before = this.socket
    super.connect(peerId, peerMetadata)
    before?.close()
    this.#begun = performance.now()
    const { socket } = this
    socket?.addEventListener("close", ({ code }: { code: number }) => {
      if (socket === this.socket && code >= 4400 && code < 4500 && code !== joinTimeout) this.refused(code)
    })
  }
}
