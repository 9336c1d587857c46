// One open document: its first text comes over REST, then a replica takes over; the event log and the leases
// run beside it.

import { tick } from "svelte"
import { SvelteMap } from "svelte/reactivity"
import { ApiError, api, messageOf } from "./api"
import { EventSubscription, type LinkState } from "./events"
import { LeaseBoard } from "./leases.svelte"
import { noteUnsaved } from "./local"
import { EventLog } from "./log.svelte"
import { overlapOf, seenOverlaps, type Overlap } from "./overlaps.svelte"
import { people } from "./people.svelte"
import { QueuePlaces } from "./places"
import { PresenceRoom } from "./presence.svelte"
import type { Replica, ReplicaHandle } from "./replica"
import { compareSections, titleOf, type DocumentContent, type SectionContent } from "./sections"
import { session } from "./session.svelte"
import { refOf, type Agent, type Document, type DocumentRef, type LogEvent, type SectionId, type Version, type Written } from "./wire"

export interface Edit {
  author: Agent
  at: Date
  /** The hashes of its changes. */
  changes: string[]
}

/** What there is to say at a section about what the reader did there. */
export interface Notice {
  text: string
  tone: "" | "warn" | "bad"
}

/** One section on the page. The object stays the same while the section lives, so that only what changes is drawn again. */
export class SectionModel {
  readonly id: SectionId
  text = $state("")
  position = $state("")
  /** Counts how often the section came to another place, or newly into the document, under the reader's eyes. */
  arrivals = $state(0)
  lastEdit = $state.raw<Edit>()
  notice = $state.raw<Notice>()
  /** How the reader lost the lease on it, until that is dealt with. */
  lost = $state("")
  #title = $derived(titleOf(this))

  constructor(content: SectionContent, arrived: boolean) {
    this.id = content.id
    this.text = content.text
    this.position = content.position
    this.arrivals = arrived ? 1 : 0
  }

  get name(): string {
    return this.#title.name
  }

  /** Of the heading; 0 without one. */
  get level(): number {
    return this.#title.level
  }
}

/** "loading": its WebAssembly is on the way. "failed": it cannot be had, and REST goes on serving the text. */
type ReplicaState = LinkState | "loading" | "failed"

const writes = new Set(["section.edited", "section.restored", "section.lease_overridden"])

/** After these the lease may be there for whoever waits. */
const freed = new Set(["section.lease_released", "section.lease_expired", "section.lease_ended", "section.lease_broken", "section.lease_reserved", "section.lease_lapsed"])

export class DocumentModel {
  title = $state("")
  sections = $state.raw<SectionModel[]>([])
  removed = $state.raw<SectionContent[]>([])
  /** The section that this reader has just removed, as long as undoing it is offered. */
  lastRemoved = $state<SectionId>()
  /** Says why the document cannot be shown (any longer). */
  gone = $state("")
  readonly log: EventLog
  readonly leases: LeaseBoard
  readonly places: QueuePlaces
  presence = $state.raw<PresenceRoom>()
  /** The replica's document, as soon as it can be written to. */
  handle = $state.raw<ReplicaHandle>()
  /** Where each author wrote last. A new object for each edit. */
  readonly wroteAt = new SvelteMap<Agent, { section: SectionId; at: number }>()
  /** Whose writing the page scrolls along with. */
  following = $state<Agent>()
  /** The section that is open to be written in, and where in its text the writing begins, in UTF-16 units. */
  editing = $state.raw<{ section: SectionId; at: number }>()
  /** Where this reader's changes are: undefined while there are none. "saved" is on the server's disk. */
  saving = $state<"saving" | "saved">()
  /** The sections with changes that are not on the server's disk yet. */
  unsaved = $state.raw<SectionId[]>([])
  #overlaps: Overlap[] = $derived.by(() => this.log.events.flatMap((event) => overlapOf(event) ?? []))
  #eventLink = $state<LinkState>("connecting")
  #replicaLink = $state<ReplicaState>("loading")
  #replica: Replica | undefined
  #subscription: EventSubscription | undefined
  #byId = new Map<SectionId, SectionModel>()
  #rereading = false
  #closed = false

  private constructor(
    readonly ref: DocumentRef,
    readonly document: Document,
  ) {
    this.log = new EventLog(ref)
    this.leases = new LeaseBoard(ref)
    this.places = new QueuePlaces(ref, {
      granted: (id) => this.#say(id, { text: "It is your turn: you hold the lease.", tone: "" }),
      refused: (id, error) => this.#say(id, { text: error.message, tone: "bad" }),
    })
    this.#show(contentOf(document), false)
  }

  /** Reads the document; what is live about it begins with connect. Throws ApiError. */
  static async open(ref: DocumentRef): Promise<DocumentModel> {
    const document = await api.document(ref)
    return new DocumentModel(refOf(document), document)
  }

  get me(): Document["me"] {
    return this.document.me
  }

  get link(): LinkState {
    if (this.#eventLink === "down" || this.#replicaLink === "down") return "down"
    if (this.#eventLink === "open" && (this.#replicaLink === "open" || this.#replicaLink === "failed")) return "open"
    return "connecting"
  }

  section(id: SectionId): SectionModel | undefined {
    return this.#byId.get(id)
  }

  nameOf = (id: SectionId): string => {
    const removed = this.removed.find((section) => section.id === id)
    return this.#byId.get(id)?.name ?? (removed ? titleOf(removed).name : id)
  }

  /** Overlaps in a section that this reader has not looked at. */
  overlapsIn(id: SectionId): Overlap[] {
    return this.#overlaps.filter((overlap) => overlap.section === id && !seenOverlaps.has(overlap.id))
  }

  async connect(): Promise<void> {
    const followed = this.#followLog()
    const leased = this.leases.refresh()
    people.add(this.me.agent)
    this.presence = new PresenceRoom(this.document.documentId)
    await Promise.all([followed, leased, this.#openReplica()])
  }

  close(): void {
    this.#closed = true
    this.#subscription?.close()
    this.#replica?.close()
    this.presence?.close()
    this.leases.close()
    this.places.close()
  }

  /** Opens a section to be written in; the one that was open is left. */
  writeIn(id: SectionId, at = 0): void {
    const section = this.#byId.get(id)
    if (section) section.notice = undefined
    this.editing = { section: id, at }
  }

  /** Ends the writing in a section, if it is the one that is open. */
  leaveSection(id: SectionId): void {
    if (this.editing?.section !== id) return
    this.editing = undefined
    void tick().then(() => document.getElementById(`s-${id}`)?.focus({ preventScroll: true }))
  }

  add(text: string): Promise<Written> {
    return this.#changed(api.addSection(this.ref, text))
  }

  /** Moves a section by so many places, negative towards the top. At either end it stays. */
  async moveBy(id: SectionId, places: number): Promise<void> {
    const others = this.sections.filter((section) => section.id !== id)
    const from = this.sections.findIndex((section) => section.id === id)
    const to = Math.min(Math.max(from + places, 0), others.length)
    if (from >= 0 && to !== from) await this.move(id, others[to - 1]?.id ?? "")
  }

  /** Moves a section behind another one; with "" it becomes the first. */
  move(id: SectionId, after: SectionId | ""): Promise<Written> {
    return this.#changed(api.moveSection(this.ref, id, after))
  }

  remove(id: SectionId): Promise<unknown> {
    return this.#changed(api.removeSection(this.ref, id))
  }

  restore(id: SectionId): Promise<Written> {
    return this.#changed(api.restoreSection(this.ref, id))
  }

  /** Gives a section the text that it had at an earlier version. */
  revert(id: SectionId, to: Version): Promise<Written> {
    return this.#changed(api.revertSection(this.ref, id, to))
  }

  /** Shows what was written. Where a replica does, it comes by itself. */
  async #changed<T>(writing: Promise<T>): Promise<T> {
    const answer = await writing
    if (!this.#replicaRules) await this.#reread()
    return answer
  }

  get #replicaRules(): boolean {
    return this.handle !== undefined
  }

  async #followLog(): Promise<void> {
    const last = Number(this.document.lastSeq)
    // A page of the log that cannot be read leaves the log empty, and the stream then begins where the text was read.
    const since = await this.log.open(last).catch(() => last)
    if (this.#closed) return
    for (const event of this.log.events) this.#noteEdit(event)
    this.#subscription = new EventSubscription(this.ref, since, {
      event: (event) => this.#take(event),
      link: (state) => this.#eventsAre(state),
      silent: () => this.#replica?.reconnect(),
      refused: (status) => this.#refused(status),
    })
  }

  async #openReplica(): Promise<void> {
    try {
      const { Replica } = await import("./replica")
      const replica = await Replica.open(this.document.url, this.me.canWrite ? this.me.agent : undefined, {
        content: (content, handle) => {
          if (this.#replicaLink === "loading") this.#replicaLink = "open"
          this.handle = handle
          this.#show(content, true)
        },
        unsaved: (sections) => this.#unsavedAre(sections),
        link: (state) => this.#replicaIs(state),
        refused: (closeCode) => {
          if ([4401, 4403, 4410].includes(closeCode)) this.#refused(closeCode - 4000)
          else this.#replicaFailed()
        },
      })
      if (this.#closed) return replica.close()
      this.#replica = replica
    } catch (error) {
      console.warn("The replica cannot be had; the text is read over REST:", messageOf(error))
      this.#replicaFailed()
    }
  }

  #replicaFailed(): void {
    this.#replicaLink = "failed"
    this.handle = undefined
  }

  /** The text can be read, but not written in. */
  get readOnly(): boolean {
    return this.#replicaLink === "failed"
  }

  #unsavedAre(sections: SectionId[] | undefined): void {
    if (sections) this.saving = "saving"
    else if (this.saving) this.saving = "saved"
    this.unsaved = sections ?? []
    if (this.me.canWrite) noteUnsaved(this.me.agent, this.document.documentId, sections && (this.title || this.ref))
  }

  #replicaIs(state: LinkState): void {
    // Until its first content is there an open socket tells nothing new.
    if (state === "down" || this.#replicaLink === "down") this.#replicaLink = state
  }

  #eventsAre(state: LinkState): void {
    const returned = state === "open" && this.#eventLink === "down"
    this.#eventLink = state
    if (!returned) return
    void this.leases.refresh()
    if (!this.#replicaRules) void this.#reread()
  }

  #refused(status: number): void {
    if (this.#closed) return
    if (status === 401) session.expire()
    this.gone = status === 410 ? "This document was deleted." : "This document can no longer be read with your key."
    this.close()
  }

  #take(event: LogEvent): void {
    this.log.add(event)
    this.#noteEdit(event)
    this.#noteLease(event)
    if (event.event_type.startsWith("section.lease")) void this.leases.refresh()
    else if (!this.#replicaRules) void this.#reread()
    if (event.event_type === "document.deleted") this.#refused(410)
  }

  #noteEdit(event: LogEvent): void {
    const { sectionId: id, hashes } = event.payload as { sectionId?: unknown; hashes?: unknown }
    if (!writes.has(event.event_type) || typeof id !== "string") return
    const at = new Date(event.created_at)
    this.wroteAt.set(event.actor_id, { section: id as SectionId, at: at.getTime() })
    const section = this.#byId.get(id as SectionId)
    if (section) section.lastEdit = { author: event.actor_id, at, changes: Array.isArray(hashes) ? (hashes as string[]) : (section.lastEdit?.changes ?? []) }
  }

  #noteLease({ event_type: type, payload, actor_id: actor }: LogEvent): void {
    const id = payload["sectionId"] as SectionId
    const section = this.#byId.get(id)
    if (!section) return
    if (freed.has(type)) void this.places.ask(id)
    if (payload["holder"] !== this.me.agent) return
    if (type === "section.lease_expired") section.lost = "Your lease on this section ran out."
    else if (type === "section.lease_broken") section.lost = `${actor} took your lease on this section away.`
    else if (type === "section.leased") section.lost = ""
  }

  #say(id: SectionId, notice: Notice): void {
    const section = this.#byId.get(id)
    if (section) section.notice = notice
  }

  /** Reads the text over REST, where no replica does. At most one reading is under way. */
  async #reread(): Promise<void> {
    if (this.#rereading) return
    this.#rereading = true
    try {
      const document = await api.document(this.ref)
      if (!this.#replicaRules) this.#show(contentOf(document), true)
    } catch (error) {
      if (error instanceof ApiError && (error.status === 410 || error.signedOut)) this.#refused(error.status)
    } finally {
      this.#rereading = false
    }
  }

  #show(content: DocumentContent, live: boolean): void {
    if (this.#closed) return
    this.title = content.title
    this.removed = content.removed
    const sections = content.sections.map((now) => {
      const section = this.#byId.get(now.id)
      if (!section) return new SectionModel(now, live)
      section.text = now.text
      if (section.position !== now.position) {
        section.position = now.position
        section.arrivals++
      }
      return section
    })
    if (sections.length === this.sections.length && sections.every((section, i) => section === this.sections[i])) return
    this.#byId = new Map(sections.map((section) => [section.id, section]))
    this.sections = sections
  }
}

function contentOf(document: Document): DocumentContent {
  return { title: document.title, sections: [...document.sections].sort(compareSections), removed: [...document.removed].sort(compareSections) }
}
