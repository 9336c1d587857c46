// The part of a document's event log that the page shows: the last events, and earlier ones when asked for.

import { api } from "./api"
import type { DocumentRef, LogEvent } from "./wire"

const pageSize = 100
/** So many events stay on the page when new ones come in. */
export const keptEvents = 500

export class EventLog {
  /** Oldest first. */
  events = $state.raw<LogEvent[]>([])
  loadingEarlier = $state(false)
  #kept = keptEvents
  #earlier: Promise<void> | undefined

  constructor(private readonly ref: DocumentRef) {}

  /** True where events exist before the first one shown. */
  get hasEarlier(): boolean {
    const first = this.events[0]
    return first !== undefined && Number(first.seq) > 1
  }

  /** Reads the last page of a log that ends with this event number, and gives the last number read. */
  async open(lastSeq: number): Promise<number> {
    const { events } = await api.events(this.ref, Math.max(0, lastSeq - pageSize), pageSize)
    this.events = events
    return Number(events.at(-1)?.seq ?? lastSeq)
  }

  add(...events: LogEvent[]): void {
    const all = [...this.events, ...events]
    // The first ones stay while those before them are read, or these would not lead on to what is there.
    this.events = this.#earlier ? all : all.slice(-this.#kept)
  }

  /** Reads the events before the first one; whoever asks while they are being read gets the same. */
  loadEarlier(): Promise<void> {
    return (this.#earlier ??= this.#readEarlier().finally(() => (this.#earlier = undefined)))
  }

  async #readEarlier(): Promise<void> {
    const before = Number(this.events[0]?.seq ?? 1)
    const since = Math.max(0, before - 1 - pageSize)
    this.loadingEarlier = true
    try {
      const { events } = await api.events(this.ref, since, before - 1 - since)
      this.events = [...events, ...this.events]
      this.#kept = Math.max(keptEvents, this.events.length)
    } finally {
      this.loadingEarlier = false
    }
  }
}
