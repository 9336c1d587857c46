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
  /** The sections in which something was written that is not known to be on the server's disk; without them, everything is. */
  unsaved(sections: SectionId[] | undefined): void
  /** Whether what is unsaved would be there if the page were closed now: the browser may have no room for it. It is, as long as nothing else is told. */
  kept(kept: boolean): void
  /** The server closed the socket with a code that says not to come back: 4000 plus the status that HTTP has for it. */
  refused(closeCode: number): void
  /** There is no replica to be had in this browser. */
  failed(message: string): void
}

export class Replica {
  readonly #worker = new Worker(new URL("../replica/worker.ts", import.meta.url), { type: "module" })
  readonly #sections = new Map<SectionId, SectionContent>()
  readonly #texts = new Map<SectionId, (reply: TextReply) => void>()
  /** What was written in these is on its way to the worker, or waits for what is on its way. */
  readonly #untaken = new Set<SectionId>()
  /** As the worker told it last. */
  #unsaved: SectionId[] | undefined
  /** The worker runs: one whose script cannot be had answers nothing. */
  #running = false
  #closed = false
  /** Tells the worker to close, once it has taken all that was written. */
  #end: (() => void) | undefined
  readonly #ended = new AbortController()

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
    const { signal } = this.#ended
    window.addEventListener("offline", this.reconnect, { signal })
    window.addEventListener("online", this.reconnect, { signal })
    document.addEventListener("visibilitychange", this.#flush, { signal })
    window.addEventListener("beforeunload", this.#leaving, { signal })
  }

  /**
   * Ends it when the worker has taken what was written, however busy it is, and has had a chance to bring it to the server,
   * unless that refused the document. Until then the listener is told the content and what is unsaved, and nothing else.
   */
  close(refused = false): void {
    if (this.#closed) return
    this.#closed = true
    if (!this.#running) return this.#terminate()
    untilClosed(
      new Promise<void>((resolve) => {
        this.#ended.signal.addEventListener("abort", () => resolve())
        this.#end = () => this.#ask({ type: "close", refused })
        this.#endWhenTaken()
      }),
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
      if (request.type !== "push" || this.#untaken.has(section)) return
      this.#untaken.add(section)
      this.#tellUnsaved()
    }
  }

  /** A tab that is hidden, or asks whether to be left, may be gone the next moment. */
  #flush = () => {
    if (document.hidden) this.#ask({ type: "flush" })
  }

  #leaving = (event: BeforeUnloadEvent) => {
    this.#ask({ type: "flush" })
    // Nobody shows the document any longer who would ask.
    if (this.#closed && this.#allUnsaved) event.preventDefault()
  }

  get #allUnsaved(): SectionId[] | undefined {
    return this.#untaken.size ? [...new Set([...this.#untaken, ...(this.#unsaved ?? [])])] : this.#unsaved
  }

  #tellUnsaved(): void {
    this.listener.unsaved(this.#allUnsaved)
  }

  #endWhenTaken(): void {
    if (this.#untaken.size) return
    this.#end?.()
    this.#end = undefined
  }

  #terminate(): void {
    this.#worker.terminate()
    this.#ended.abort()
  }

  #ask(request: ReplicaRequest): void {
    this.#worker.postMessage(request)
  }

  #fail(message: string): void {
    const wasOpen = !this.#closed
    this.#closed = true
    this.#terminate()
    if (wasOpen) this.listener.failed(message)
  }

  #take(reply: ReplicaReply): void {
    this.#running = true
    switch (reply.type) {
      case "content": {
        const { title, sections, removed, changed } = reply.news
        for (const section of changed) this.#sections.set(section.id, section)
        const all = (ids: SectionId[]) => ids.map((id) => this.#sections.get(id)!)
        return this.listener.content({ title, sections: all(sections), removed: all(removed) })
      }
      case "unsaved":
        this.#unsaved = reply.sections
        return this.#tellUnsaved()
      case "text":
        return this.#takeText(reply.section, reply.reply)
      case "failed":
        return this.#fail(reply.message)
      case "closed":
        return this.#terminate()
    }
    if (this.#closed) return
    if (reply.type === "link") return this.listener.link(reply.state)
    if (reply.type === "kept") return this.listener.kept(reply.kept)
    this.close(true)
    this.listener.refused(reply.closeCode)
  }

  #takeText(section: SectionId, reply: TextReply): void {
    const answered = reply.type === "stale" || reply.type === "gone" || (reply.type === "updated" && reply.updates.some(({ pushed }) => pushed))
    if (answered) this.#untaken.delete(section)
    // What waited meanwhile is pushed by the listener.
    this.#texts.get(section)?.(reply)
    if (!answered || this.#untaken.has(section)) return
    this.#tellUnsaved()
    this.#endWhenTaken()
  }
}
