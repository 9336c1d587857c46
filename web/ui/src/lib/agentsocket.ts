// The page's line on the socket of agents (sync/PROTOCOL.md): it follows one document, and comes back when it is cut.

import { apiBase } from "./api"
import type { LinkState } from "./events"

/** A frame of the server. Types that nobody knows are passed over. */
export interface Frame {
  type: string
}

export interface AgentSocketListener {
  /** The fields with which the document is opened, beside its name. */
  opening(): object
  frame(frame: Frame): void
  link(state: LinkState): void
  /** The server closed the socket for good: 401 signed out, 403 not for this reader, 410 deleted. */
  refused(status: number): void
}

const firstRetryMs = 1_000
const longestRetryMs = 30_000
const final = [4401, 4403, 4410]

export class AgentSocket {
  #socket: WebSocket | undefined
  #retryMs = firstRetryMs
  #retry: ReturnType<typeof setTimeout> | undefined
  #closed = false

  constructor(
    private readonly document: string,
    private readonly listener: AgentSocketListener,
  ) {
    window.addEventListener("online", this.reconnect)
    window.addEventListener("offline", this.reconnect)
    this.reconnect()
  }

  close(): void {
    this.#closed = true
    clearTimeout(this.#retry)
    window.removeEventListener("online", this.reconnect)
    window.removeEventListener("offline", this.reconnect)
    this.#socket?.close()
  }

  /** Opens the document anew, with the fields of this moment. */
  open(): void {
    this.send({ type: "open", id: "1", ...this.listener.opening() })
  }

  /** Sends a frame about the document; while the line is cut it is dropped. */
  send(frame: Frame & Record<string, unknown>): void {
    if (this.#socket?.readyState === WebSocket.OPEN) this.#socket.send(JSON.stringify({ ...frame, document: this.document }))
  }

  /** Replaces a socket that may be dead: one over a line that is cut would take a minute to find out. */
  reconnect = (): void => {
    clearTimeout(this.#retry)
    if (this.#closed || this.#socket?.readyState === WebSocket.CONNECTING) return
    if (this.#socket) this.listener.link("down")
    this.#socket?.close()
    const { protocol, host } = window.location
    const socket = new WebSocket(`${protocol === "https:" ? "wss" : "ws"}://${host}${apiBase}/agent`, "cowrite.agent.v1")
    this.#socket = socket
    socket.addEventListener("open", () => this.open())
    socket.addEventListener("message", ({ data }: MessageEvent<string>) => {
      if (socket === this.#socket && !this.#closed) this.#take(JSON.parse(data) as Frame)
    })
    socket.addEventListener("close", ({ code }) => {
      if (socket !== this.#socket || this.#closed) return
      this.listener.link("down")
      if (final.includes(code)) return this.listener.refused(code - 4000)
      this.#retry = setTimeout(this.reconnect, this.#retryMs * (0.75 + Math.random() / 2))
      this.#retryMs = Math.min(2 * this.#retryMs, longestRetryMs)
    })
  }

  #take(frame: Frame & { id?: string }): void {
    if (frame.type === "opened") {
      this.#retryMs = firstRetryMs
      this.listener.link("open")
    }
    // The document is followed no longer, or never was: the next socket tries again.
    if (frame.type === "closed" || (frame.type === "error" && frame.id === "1")) return this.#socket!.close()
    this.listener.frame(frame)
  }
}
