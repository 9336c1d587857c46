// The reader's own places in queues for leases. A place lives for a while after it was last asked for, so that it is
// asked for again and again until it is the reader's turn or the reader leaves it; and at once when the lease is free.

import { ApiError, api } from "./api"
import type { DocumentRef, SectionId } from "./wire"

/** How long a place, and a lease that is kept for its owner, outlives the last ask; and how often it is asked for. */
const placeSeconds = 60
const askEveryMs = 20_000

export interface PlaceListener {
  /** The turn came: the reader holds the lease. */
  granted(id: SectionId): void
  /** The server took no place, or the place is gone. */
  refused(id: SectionId, error: ApiError): void
}

export class QueuePlaces {
  #timers = new Map<SectionId, ReturnType<typeof setTimeout>>()
  #asking = new Set<SectionId>()

  constructor(
    private readonly ref: DocumentRef,
    private readonly listener: PlaceListener,
  ) {}

  /** Takes a place, and the lease if it is free. */
  async take(id: SectionId): Promise<void> {
    this.#rearm(id)
    await this.ask(id)
  }

  async leave(id: SectionId): Promise<void> {
    this.#forget(id)
    await api.leaveQueue(this.ref, id)
  }

  /** Asks again for a place that is held. What is known to be free has to be asked for soon, or the next one gets it. */
  async ask(id: SectionId): Promise<void> {
    if (!this.#timers.has(id) || this.#asking.has(id)) return
    this.#asking.add(id)
    try {
      await api.queueForLease(this.ref, id, placeSeconds)
      if (!this.#timers.has(id)) return
      this.#forget(id)
      this.listener.granted(id)
    } catch (error) {
      if (!(error instanceof ApiError) || error.code === "SECTION_LEASED" || passing(error) || !this.#timers.has(id)) return
      this.#forget(id)
      this.listener.refused(id, error)
    } finally {
      this.#asking.delete(id)
      if (this.#timers.has(id)) this.#rearm(id)
    }
  }

  /** Ends all asking; the places run out by themselves. */
  close(): void {
    for (const id of [...this.#timers.keys()]) this.#forget(id)
  }

  #rearm(id: SectionId): void {
    clearTimeout(this.#timers.get(id))
    this.#timers.set(id, setTimeout(() => void this.ask(id), askEveryMs))
  }

  #forget(id: SectionId): void {
    clearTimeout(this.#timers.get(id))
    this.#timers.delete(id)
  }
}

/** No answer, too many requests, or a server in trouble: the next ask may fare better. */
function passing({ status }: ApiError): boolean {
  return status === 0 || status === 429 || status >= 500
}
