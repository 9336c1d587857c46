// Who holds what and who waits for whom, kept up to date: the ledger is asked for what is new, and all is read again
// when there is something.

import { ApiError, call } from "../lib/api"
import { endOf, type Instant } from "../lib/countdown"
import type { LinkState } from "../lib/events"
import { session } from "../lib/session.svelte"
import type { Wait } from "../playground/engine"
import { bareName } from "../playground/summary"
import type { Deadlock, LedgerEntry, LedgerPage, ResourceStanding, Standing } from "./wire"

const path = "/acp/coordination"
/** How often the ledger is asked while the page is in sight, and how often while the server is out of reach. */
const askEveryMs = 1_000
const retryEveryMs = 5_000
/** So many entries of the ledger are kept, which is as many as one answer may have. */
const keptEntries = 1_000

export interface LiveResource extends ResourceStanding {
  /** When each of the leases ends. */
  ends: Instant[]
}

export class Coordination {
  resources = $state.raw<LiveResource[]>()
  /** Resources that there are, also those that one answer has no room for. */
  total = $state(0)
  waits = $state.raw<Wait[]>([])
  agents = $state.raw(new Map<string, number>())
  deadlocks = $state.raw<Deadlock[]>([])
  /** The end of the ledger, in order. */
  entries = $state.raw<LedgerEntry[]>([])
  link = $state<LinkState>("connecting")
  #next: string | undefined
  #stale = true
  #closed = false
  #timer: ReturnType<typeof setTimeout> | undefined

  constructor() {
    document.addEventListener("visibilitychange", this.#seen)
    void this.#ask()
  }

  close(): void {
    this.#closed = true
    clearTimeout(this.#timer)
    document.removeEventListener("visibilitychange", this.#seen)
  }

  #seen = (): void => {
    if (document.hidden || this.#closed || this.#timer === undefined) return
    clearTimeout(this.#timer)
    void this.#ask()
  }

  async #ask(): Promise<void> {
    this.#timer = undefined
    let pause = askEveryMs
    try {
      await this.#readLedger()
      if (this.#stale) await this.#readStanding()
      this.link = "open"
    } catch (error) {
      if (error instanceof ApiError && error.signedOut) {
        this.close()
        return session.expire()
      }
      this.link = "down"
      pause = retryEveryMs
    }
    if (this.#closed) return
    // Out of sight nothing is asked; what is asked next is everything since.
    this.#timer = setTimeout(() => (document.hidden ? undefined : void this.#ask()), pause)
  }

  async #readLedger(): Promise<void> {
    const from = this.#next === undefined ? "last=true" : `after=${this.#next}`
    const page = await call<LedgerPage>("GET", `${path}/ledger?${from}&limit=${keptEntries}`)
    this.#stale ||= page.next !== this.#next
    this.#next = page.next
    if (page.entries.length) this.entries = [...this.entries, ...page.entries].slice(-keptEntries)
  }

  async #readStanding(): Promise<void> {
    const asked = performance.now()
    const [standing, { deadlocks }] = await Promise.all([
      call<Standing>("GET", `${path}/resources`),
      call<{ deadlocks: Deadlock[] }>("GET", `${path}/wait`),
    ])
    const counted = (asked + performance.now()) / 2
    this.#stale = false
    this.total = standing.total
    this.resources = standing.resources.map((resource) => ({ ...resource, ends: resource.leases.map((lease) => endOf(lease.expiresInMs, counted)) }))
    this.waits = standing.waits.map((wait) => ({ from: bareName(wait.actorDid), to: bareName(wait.for), over: wait.resource }))
    this.agents = new Map(standing.agents.map(({ actorDid, trust }) => [bareName(actorDid), trust]))
    this.deadlocks = deadlocks
  }
}

/** The circle as edges; the first is the one that was not let in. */
export function circleOf({ actors, resources }: Deadlock): Wait[] {
  return actors.map((actor, i) => ({
    from: bareName(actor),
    to: bareName(actors[(i + 1) % actors.length]!),
    over: resources[i] || "something else", // no business of the reader's
    circle: true,
    refused: i === 0,
  }))
}
