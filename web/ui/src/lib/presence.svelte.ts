// Who else has the document open, over the socket of agents: pages and agents say there where they are, and the server
// puts the name of the key to it, so that nobody can pass for another.

import { apiBase } from "./api"
import { people } from "./people.svelte"
import type { Agent, DocumentId, SectionId } from "./wire"

/** What a page says of its reader. Agents may say anything, or nothing. */
interface PageState {
  page: true
  /** An Automerge cursor in the section's text: where the reader's caret is. */
  cursor?: string
}

export interface Presence {
  agent: Agent
  section: SectionId | undefined
  cursor: string | undefined
}

interface PresenceFrame {
  type: "presence"
  agent: Agent
  session: string
  section?: SectionId
  state?: Partial<PageState> | null
  expiresInMs?: number
  gone?: true
}

/** How long the server keeps a presence, and how often it is said anew, in milliseconds. */
const ttlMs = 30_000
const repeatMs = 20_000
/** A caret that is moved fast is told no more often than this, in milliseconds. */
const restMs = 80
const firstRetryMs = 1_000
const longestRetryMs = 30_000

export class PresenceRoom {
  others = $state.raw<Presence[]>([])
  #all = new Map<string, Presence & { until: number }>()
  #socket: WebSocket | undefined
  #own: { section: SectionId | undefined; cursor: string | undefined } = { section: undefined, cursor: undefined }
  #retryMs = firstRetryMs
  #resting: ReturnType<typeof setTimeout> | undefined
  #retry: ReturnType<typeof setTimeout> | undefined
  #drawing = false
  #closed = false
  readonly #repeat: ReturnType<typeof setInterval>

  constructor(private readonly id: DocumentId) {
    this.#repeat = setInterval(() => {
      this.#say()
      this.#draw()
    }, repeatMs)
    window.addEventListener("online", this.#connect)
    this.#connect()
  }

  close(): void {
    this.#closed = true
    clearInterval(this.#repeat)
    clearTimeout(this.#resting)
    clearTimeout(this.#retry)
    window.removeEventListener("online", this.#connect)
    this.#socket?.close()
  }

  /** Says where the reader is; nothing of either is also something to say. */
  at(section: SectionId | undefined, cursor?: string): void {
    this.#own = { section, cursor }
    this.#resting ??= setTimeout(() => {
      this.#resting = undefined
      this.#say()
    }, restMs)
  }

  #connect = (): void => {
    clearTimeout(this.#retry)
    if (this.#closed || this.#socket?.readyState === WebSocket.CONNECTING) return
    this.#socket?.close()
    const { protocol, host } = window.location
    const socket = new WebSocket(`${protocol === "https:" ? "wss" : "ws"}://${host}${apiBase}/agent`, "cowrite.agent.v1")
    this.#socket = socket
    socket.addEventListener("open", () => {
      this.#retryMs = firstRetryMs
      socket.send(JSON.stringify({ type: "open", id: "1", document: this.id, view: "log" }))
      this.#say()
    })
    socket.addEventListener("message", ({ data }: MessageEvent<string>) => {
      const frame = JSON.parse(data) as { type: string }
      if (frame.type === "presence") this.#take(frame as PresenceFrame)
    })
    socket.addEventListener("close", ({ code }) => {
      if (socket !== this.#socket || this.#closed) return
      this.#all.clear()
      this.#draw()
      if (code >= 4400 && code < 4500) return
      this.#retry = setTimeout(this.#connect, this.#retryMs * (0.75 + Math.random() / 2))
      this.#retryMs = Math.min(2 * this.#retryMs, longestRetryMs)
    })
  }

  #say(): void {
    if (this.#socket?.readyState !== WebSocket.OPEN) return
    const { section, cursor } = this.#own
    const state: PageState = { page: true, ...(cursor ? { cursor } : {}) }
    this.#socket.send(JSON.stringify({ type: "presence", document: this.id, ...(section ? { section } : {}), state, ttlSeconds: ttlMs / 1000 }))
  }

  #take({ agent, session, section, state, expiresInMs = ttlMs, gone }: PresenceFrame): void {
    if (gone) this.#all.delete(session)
    else {
      if (state?.page === true) people.add(agent)
      const cursor = typeof state?.cursor === "string" ? state.cursor : undefined
      this.#all.set(session, { agent, section, cursor, until: performance.now() + expiresInMs })
    }
    this.#draw()
  }

  #draw(): void {
    if (this.#drawing) return
    this.#drawing = true
    requestAnimationFrame(() => {
      this.#drawing = false
      const now = performance.now()
      for (const [session, { until }] of this.#all) if (until < now) this.#all.delete(session)
      this.others = [...this.#all.values()]
    })
  }
}
