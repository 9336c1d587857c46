// The page's end of an Automerge replica of one document, which lives in a worker. Only who writes needs one.

import type { ReplicaReply, ReplicaRequest, TextReply, TextRequest } from "../replica/messages"
import { apiBase } from "./api"
import type { LinkState } from "./events"
import { untilClosed } from "./local"
import type { DocumentContent, SectionContent } from "./sections"
import type { Agent, DocumentUrl, SectionId } from "./wire"

export interface ReplicaListener {
  /** The document as it stands now, and never older than what the server had at first contact. */
  content(content: DocumentContent): void
  link(state: LinkState): void
  /** The sections with changes that are not known to be on the server's disk; without them, everything is. */
  unsaved(sections: SectionId[] | undefined): void
  /** The server closed the socket with a code that says not to come back: 4000 plus the status that HTTP has for it. */
  refused(closeCode: number): void
  /** There is no replica to be had in this browser. */
  failed(message: string): void
}

export class Replica {
  readonly #worker = new Worker(new URL("../replica/worker.ts", import.meta.url), { type: "module" })
  readonly #sections = new Map<SectionId, SectionContent>()
  readonly #texts = new Map<SectionId, (reply: TextReply) => void>()
  /** The worker runs: one whose script cannot be had answers nothing. */
  #running = false
  #closed = false

  /**
   * What a writer writes is kept in this browser too, under the writer's name, until the server has it. Opened alone, a
   * replica shows what is kept without waiting for the server.
   */
  constructor(
    url: DocumentUrl,
    writer: Agent,
    alone: boolean,
    private readonly listener: ReplicaListener,
  ) {
    this.#worker.addEventListener("message", ({ data }: MessageEvent<ReplicaReply>) => this.#take(data))
    this.#worker.addEventListener("error", ({ message }) => this.#fail(message))
    const { protocol, host } = window.location
    this.#ask({ type: "open", url, writer, alone, server: `${protocol === "https:" ? "wss" : "ws"}://${host}${apiBase}/sync` })
    window.addEventListener("offline", this.reconnect)
    window.addEventListener("online", this.reconnect)
    document.addEventListener("visibilitychange", this.#flush)
    window.addEventListener("beforeunload", this.#flush)
  }

  close(): void {
    if (this.#closed) return
    this.#closed = true
    window.removeEventListener("offline", this.reconnect)
    window.removeEventListener("online", this.reconnect)
    document.removeEventListener("visibilitychange", this.#flush)
    window.removeEventListener("beforeunload", this.#flush)
    if (!this.#running) return this.#worker.terminate()
    untilClosed(
      new Promise<void>((resolve) => {
        this.#worker.addEventListener("message", ({ data }: MessageEvent<ReplicaReply>) => data.type === "closed" && resolve())
        this.#worker.addEventListener("error", () => resolve())
        this.#ask({ type: "close" })
      }).then(() => this.#worker.terminate()),
    )
  }

  /** Replaces a socket that may be dead. */
  reconnect = (): void => this.#ask({ type: "reconnect" })

  /** Begins to write in a section; what comes back asks the worker about its text. There is one listener for each section. */
  text(section: SectionId, listener: (reply: TextReply) => void): (request: TextRequest) => void {
    this.#texts.set(section, listener)
    return (request) => {
      this.#ask({ type: "text", section, request })
      if (request.type === "end") this.#texts.delete(section)
    }
  }

  /** A tab that is hidden, or asks whether to be left, may be gone the next moment. */
  #flush = ({ type }: Event) => {
    if (document.hidden || type === "beforeunload") this.#ask({ type: "flush" })
  }

  #ask(request: ReplicaRequest): void {
    this.#worker.postMessage(request)
  }

  #fail(message: string): void {
    if (this.#closed) return
    this.close()
    this.listener.failed(message)
  }

  #take(reply: ReplicaReply): void {
    this.#running = true
    if (this.#closed) return
    switch (reply.type) {
      case "content": {
        const { title, sections, removed, changed } = reply.news
        for (const section of changed) this.#sections.set(section.id, section)
        const all = (ids: SectionId[]) => ids.map((id) => this.#sections.get(id)!)
        return this.listener.content({ title, sections: all(sections), removed: all(removed) })
      }
      case "link":
        return this.listener.link(reply.state)
      case "unsaved":
        return this.listener.unsaved(reply.sections)
      case "refused":
        this.close()
        return this.listener.refused(reply.closeCode)
      case "failed":
        return this.#fail(reply.message)
      case "text":
        return this.#texts.get(reply.section)?.(reply.reply)
    }
  }
}
