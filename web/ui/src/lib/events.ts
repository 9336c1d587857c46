// A document's event log as it grows: no gap, no repeat, whatever happens to the connection.

import { apiBase, refusalIn } from "./api"
import { SseParser } from "./sse"
import type { DocumentRef, LogEvent } from "./wire"

export type LinkState = "connecting" | "open" | "down"

export interface EventListener {
  event(event: LogEvent): void
  /** It may be said why the link is down. */
  link(state: LinkState, why?: string): void
  /** Nothing came for so long that whatever else is connected to the server is likely dead too. */
  silent(): void
  /** The log has not come to the event that was seen last, because the server was restored from a backup: it ends with this number. Gives the number to go on behind. */
  anew(lastSeq: number): Promise<number>
  /** The server refused for good: 401 signed out, 403 and 404 not for this reader, 410 deleted. */
  refused(status: number): void
}

/** The server sends a comment every 15 s: after two that did not come, the link is dead. */
const silenceMs = 35_000
/** The first try comes soon, as most cuts are short; each further one waits twice as long, up to what the server asks for. */
const firstRetryMs = 500
const defaultRetryMs = 5_000

/** An operator has taken the document out of service, until the block is lifted. */
const blocked = 423
/** Of the refusals, those that may be none the next time. */
const passing = [408, blocked, 429]

/** Follows the log behind an event number until it is closed. */
export class EventSubscription {
  #closed = new AbortController()
  #attempt = new AbortController()
  #wake: (() => void) | undefined
  #retry = firstRetryMs
  #maxRetry = defaultRetryMs

  constructor(
    readonly ref: DocumentRef,
    private last: number,
    private readonly listener: EventListener,
  ) {
    window.addEventListener("online", this.#online, { signal: this.#closed.signal })
    window.addEventListener("offline", this.#offline, { signal: this.#closed.signal })
    void this.#run()
  }

  close(): void {
    this.#closed.abort()
    this.#attempt.abort()
    this.#wake?.()
  }

  #online = () => this.#wake?.()
  #offline = () => this.#attempt.abort()

  async #run(): Promise<void> {
    while (!this.#closed.signal.aborted) {
      const { status, why } = await this.#follow()
      if (this.#closed.signal.aborted) return
      if (status >= 400 && status < 500 && !passing.includes(status)) {
        this.close()
        return this.listener.refused(status)
      }
      this.listener.link("down", why)
      await this.#pause()
    }
  }

  /** Reads one connection to its end and gives the status of its answer, 0 for none, and what an operator's block is said to be. */
  async #follow(): Promise<{ status: number; why?: string }> {
    this.#attempt = new AbortController()
    const silent = () => {
      this.#attempt.abort()
      this.listener.silent()
    }
    let silence = setTimeout(silent, silenceMs)
    try {
      const response = await fetch(`${apiBase}/documents/${encodeURIComponent(this.ref)}/events/stream?since=${this.last}`, {
        headers: { Accept: "text/event-stream" },
        cache: "no-store",
        signal: this.#attempt.signal,
      })
      const { status } = response
      const refusal = response.ok ? undefined : await refusalIn(response)
      if (refusal?.error === "INVALID_CURSOR" && "lastSeq" in refusal) {
        this.last = await this.listener.anew(Number(refusal["lastSeq"]))
        return { status: 0 }
      }
      if (refusal && status === blocked) return { status, why: [refusal.message, refusal["reason"]].filter(Boolean).join(": ") }
      if (!response.ok || !response.body) return { status }
      this.listener.link("open")
      this.#retry = firstRetryMs
      const parser = new SseParser()
      const reader = response.body.pipeThrough(new TextDecoderStream()).getReader()
      for (;;) {
        const { done, value } = await reader.read()
        if (done) return { status }
        clearTimeout(silence)
        silence = setTimeout(silent, silenceMs)
        for (const item of parser.push(value)) {
          if (item.kind === "retry") this.#maxRetry = Math.max(item.ms, firstRetryMs)
          else if (!this.#take(JSON.parse(item.data) as LogEvent)) return { status }
        }
      }
    } catch {
      return { status: 0 }
    } finally {
      clearTimeout(silence)
      this.#attempt.abort()
    }
  }

  /** False where an event is missing in between: the next connection begins again behind the last one. */
  #take(event: LogEvent): boolean {
    const seq = Number(event.seq)
    if (seq <= this.last) return true
    if (seq > this.last + 1) return false
    this.last = seq
    if (!this.#closed.signal.aborted) this.listener.event(event)
    return true
  }

  #pause(): Promise<void> {
    const ms = this.#retry * (0.75 + Math.random() / 2) // so that not all pages come back at one instant
    this.#retry = Math.min(2 * this.#retry, this.#maxRetry)
    return new Promise((resolve) => {
      const timer = setTimeout(resolve, ms)
      this.#wake = () => {
        clearTimeout(timer)
        resolve()
      }
    })
  }
}
