// The leases that this reader holds in a document. The browser remembers them, so that one that is lost while the page is
// closed can be taken back by one click when it is opened again.

import { api } from "./api"
import type { LeaseBoard } from "./leases.svelte"
import type { Agent, Document, DocumentId, DocumentRef, LeaseId, LogEvent, SectionId, Seq } from "./wire"

interface Held {
  leaseId: LeaseId
  /** The log's last event when the lease was known to be held. */
  seq: Seq
}

/** So many events are looked through for how a lease was lost. */
const mostMissed = 1_000

export class HeldLeases {
  readonly #id: DocumentId
  readonly #holder: Agent
  /** Those that were lost stay in it until the reader has dealt with that. */
  #held: Map<SectionId, Held> | undefined

  constructor(
    private readonly ref: DocumentRef,
    { documentId, me }: Pick<Document, "documentId" | "me">,
    /** The living section in which is said how the lease on it was lost. */
    private readonly section: (id: SectionId) => { lost: string } | undefined,
  ) {
    this.#id = documentId
    this.#holder = me.agent
  }

  /** Goes by the board as it was just read, at this event of the log. */
  async follow(board: LeaseBoard, seq: Seq): Promise<void> {
    if (!board.known) return
    if (!this.#held) await this.#compare((this.#held = remembered(this.#holder)[this.#id] ?? new Map()), board)
    for (const id of this.#held.keys()) if (!this.section(id)?.lost) this.#held.delete(id)
    for (const [id, { leaseId }] of board.allOf(this.#holder)) this.#held.set(id, { leaseId, seq })
    this.#remember()
  }

  /** Takes an event in that has just come about a section. */
  note(event: LogEvent): void {
    const { sectionId, holder, leaseId } = event.payload as { sectionId: SectionId; holder?: Agent; leaseId: LeaseId }
    const section = this.section(sectionId)
    if (!section || holder !== this.#holder) return
    const loss = lossIn(event, leaseId)
    if (loss) {
      section.lost = loss
      this.#held?.set(sectionId, { leaseId, seq: event.seq })
    } else if (event.event_type === "section.leased") section.lost = ""
  }

  /** The reader has seen that a lease was lost, and has taken it back or not. */
  dealtWith(id: SectionId): void {
    const section = this.section(id)
    if (section) section.lost = ""
    this.#held?.delete(id)
    this.#remember()
  }

  /** Finds out what became of the leases that were held when the page was closed. */
  async #compare(before: ReadonlyMap<SectionId, Held>, board: LeaseBoard): Promise<void> {
    const gone = [...before].filter(([id]) => !board.heldBy(id, this.#holder))
    if (gone.length === 0) return
    const since = Math.min(...gone.map(([, { seq }]) => Number(seq)))
    // Without the log it is known all the same that the lease is gone.
    const { events } = await api.events(this.ref, since, mostMissed).catch(() => ({ events: [] }))
    for (const [id, held] of gone) {
      const loss = events.flatMap((event) => lossIn(event, held.leaseId) ?? [])[0] ?? "Your lease on this section ended while the page was closed."
      const section = this.section(id)
      if (!section || !loss) continue
      section.lost = loss
      this.#held?.set(id, held)
    }
  }

  #remember(): void {
    const all = remembered(this.#holder)
    delete all[this.#id]
    if (this.#held?.size) all[this.#id] = this.#held
    const kept = Object.entries(all).map(([id, held]) => [id, [...held]])
    if (kept.length) localStorage.setItem(keyOf(this.#holder), JSON.stringify(kept))
    else localStorage.removeItem(keyOf(this.#holder))
  }
}

/** How an event took a lease from its holder, in words; "" where the holder gave it back or on, undefined where the lease goes on. */
export function lossIn({ event_type: type, actor_id: actor, payload }: LogEvent, lease: LeaseId): string | undefined {
  if (payload["leaseId"] !== lease && payload["previousLeaseId"] !== lease) return undefined
  switch (type) {
    case "section.lease_expired":
      return "Your lease on this section ran out."
    case "section.lease_broken":
      return `${actor} took your lease on this section away.`
    case "section.lease_ended":
      return "Your lease on this section was ended."
    case "section.lease_released":
    case "section.lease_transferred":
      return ""
  }
  return undefined
}

const keyOf = (holder: Agent) => `cowrite:held:${holder}`

function remembered(holder: Agent): Record<DocumentId, Map<SectionId, Held>> {
  const kept = JSON.parse(localStorage.getItem(keyOf(holder)) ?? "[]") as [DocumentId, [SectionId, Held][]][]
  return Object.fromEntries(kept.map(([id, held]) => [id, new Map(held)]))
}

/** Forgets all that the browser remembers of somebody's leases. */
export function forgetHeld(holder: Agent): void {
  localStorage.removeItem(keyOf(holder))
}
