// The live leases of a document. The server's list is read again whenever the log tells of a change, so that
// each end is known in milliseconds from now; between two readings a timer drops what has ended.

import { api } from "./api"
import { endOf, type Instant } from "./countdown"
import type { Agent, DocumentRef, Lease, SectionId, Waiter } from "./wire"

export interface LiveLease extends Lease {
  end: Instant
}

export interface SectionLeases {
  leases: LiveLease[]
  waiters: Waiter[]
}

const none: SectionLeases = { leases: [], waiters: [] }

export class LeaseBoard {
  #sections = $state.raw(new Map<SectionId, SectionLeases>())
  /** The server's list was read at least once. */
  known = false
  #timer: ReturnType<typeof setTimeout> | undefined
  #reading = false
  #stale = false
  #closed = false

  constructor(private readonly ref: DocumentRef) {}

  of(id: SectionId): SectionLeases {
    return this.#sections.get(id) ?? none
  }

  /** The lease that this agent holds on the section. */
  heldBy(id: SectionId, agent: Agent): LiveLease | undefined {
    return this.of(id).leases.find((lease) => lease.holder === agent)
  }

  /** All that this agent holds. */
  allOf(agent: Agent): [SectionId, LiveLease][] {
    return [...this.#sections].flatMap(([id, { leases }]) => leases.filter((lease) => lease.holder === agent).map((lease): [SectionId, LiveLease] => [id, lease]))
  }

  /** Reads the server's list; at most one reading is under way and one waits. */
  async refresh(): Promise<void> {
    this.#stale = true
    if (this.#reading) return
    this.#reading = true
    try {
      while (this.#stale && !this.#closed) {
        this.#stale = false
        const asked = performance.now()
        const { leases, queues } = await api.leases(this.ref)
        // The server counted somewhere between the question and its answer: the middle is off by the least.
        const counted = (asked + performance.now()) / 2
        const sections = new Map<SectionId, SectionLeases>()
        const at = (id: SectionId) => {
          const found = sections.get(id) ?? { leases: [], waiters: [] }
          sections.set(id, found)
          return found
        }
        for (const lease of leases) at(lease.sectionId).leases.push({ ...lease, end: endOf(lease.expiresInMs, counted) })
        for (const queue of queues) at(queue.sectionId).waiters = queue.waiters
        this.#sections = sections
        this.known = true
        this.#dropEnded()
      }
    } catch {
      // The link's state tells of an outage, and the list is read again when the link is back.
    } finally {
      this.#reading = false
    }
  }

  close(): void {
    this.#closed = true
    clearTimeout(this.#timer)
  }

  #dropEnded(): void {
    clearTimeout(this.#timer)
    if (this.#closed) return
    const now = performance.now()
    let next = Infinity
    const sections = new Map<SectionId, SectionLeases>()
    for (const [id, { leases, waiters }] of this.#sections) {
      const live = leases.filter((lease) => lease.end > now)
      if (live.length || waiters.length) sections.set(id, { leases: live, waiters })
      for (const lease of live) next = Math.min(next, lease.end)
    }
    this.#sections = sections
    if (next < Infinity) this.#timer = setTimeout(() => this.#dropEnded(), Math.max(0, next - now))
  }
}
