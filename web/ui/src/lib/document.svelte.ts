// One open document. Its first text comes over REST, what becomes of it over the socket of agents; where somebody writes,
// a replica takes over. The event log and the leases run beside it.

import { tick } from "svelte"
import { SvelteMap } from "svelte/reactivity"
import { AgentSocket, type Frame } from "./agentsocket"
import { api, ApiError } from "./api"
import { serverNow } from "./clock"
import { EventSubscription, type LinkState } from "./events"
import { nextFrame } from "./frame"
import { HeldLeases } from "./held"
import { LeaseBoard } from "./leases.svelte"
import { LiveText, type ChangedFrame, type OpenedFrame } from "./livetext"
import { dropRefused, isUnsaved, keepsUnsaved, keptDocument, noteKept, noteUnsaved } from "./local"
import { EventLog } from "./log.svelte"
import { overlapOf, seenOverlaps, type Overlap } from "./overlaps.svelte"
import { paced } from "./paced"
import { QueuePlaces } from "./places"
import { PresenceRoom, type PresenceFrame } from "./presence.svelte"
import { Replica } from "./replica"
import type { DocumentContent, SectionContent } from "./sections"
import { session } from "./session.svelte"
import { keepShell } from "./shell"
import { titleOf } from "./titles"
import { inTurn } from "./turns"
import { refOf, type Agent, type Document, type DocumentRef, type LogEvent, type SectionId, type Version, type Written } from "./wire"
import type { Writing, Writings } from "./writing"

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

/** What the log tells is taken up at most this often, in milliseconds. */
const newsMs = 200

/** Who wrote this lately counts as here, in milliseconds: many programs tell nothing of themselves. */
export const latelyMs = 60_000

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
  /** It is gone because it was deleted. */
  deleted = $state(false)
  readonly log: EventLog
  readonly leases: LeaseBoard
  readonly places: QueuePlaces
  readonly held: HeldLeases
  presence = $state.raw<PresenceRoom>()
  /** As soon as it can be written to. */
  replica = $state.raw<Replica>()
  /** Where each author wrote last, of those who wrote lately and of who is followed. A new object for each edit. */
  readonly wroteAt = new SvelteMap<Agent, { section: SectionId; at: number }>()
  /** Whose writing the page scrolls along with. */
  following = $state<Agent>()
  /** The section that is open to be written in, and where in its text the writing begins, in UTF-16 units. */
  editing = $state.raw<{ section: SectionId; at: number }>()
  /** Where this reader's changes are: undefined while there are none. "saved" is on the server's disk. */
  saving = $state<"saving" | "saved">()
  /** The sections with changes that are not on the server's disk yet, as far as they are known while something is being saved. */
  unsaved = $state.raw<SectionId[]>([])
  /** What is unsaved is kept in this browser. */
  kept = $state(true)
  /** Why the link is down, where the server says so. */
  why = $state("")
  #overlaps: Overlap[] = $derived.by(() => this.log.events.flatMap((event) => overlapOf(event) ?? []))
  /** The text can be read, but not written in: a replica could not be had. */
  readOnly = $state(false)
  #eventLink = $state<LinkState>("connecting")
  #socketLink = $state<LinkState>("connecting")
  #replicaLink = $state<LinkState>("connecting")
  #socket: AgentSocket | undefined
  readonly #text: LiveText
  #drawing = false
  /** From when it is asked for. */
  #replica: Replica | undefined
  #writings: Writings | undefined
  #subscription: EventSubscription | undefined
  #byId = new Map<SectionId, SectionModel>()
  #news: LogEvent[] = []
  readonly #tellNews = paced(newsMs, () => this.#takeNews())
  #closed = false

  private constructor(
    readonly ref: DocumentRef,
    readonly document: Document,
    /** The server could not be reached: what there is of the document is in this browser. */
    private readonly alone: boolean,
  ) {
    this.log = new EventLog(ref)
    this.leases = new LeaseBoard(ref)
    this.places = new QueuePlaces(ref, {
      granted: (id) => this.#say(id, { text: "It is your turn: you hold the lease.", tone: "" }),
      refused: (id, error) => this.#say(id, { text: error.message, tone: "bad" }),
    })
    this.held = new HeldLeases(ref, document, (id) => this.#byId.get(id))
    // Of an earlier page, until the replica knows better.
    if (this.me.canWrite && isUnsaved(this.me.agent, document.documentId)) this.saving = "saving"
    this.#text = new LiveText(document)
    this.#show(this.#text.content, false)
  }

  /**
   * Reads the document; what is live about it begins with connect. Without the server it is what the reader's browser
   * keeps of it, and so it is of one that was deleted with something of the reader's unsaved. Throws ApiError.
   */
  static async open(ref: DocumentRef, reader: Agent): Promise<DocumentModel> {
    try {
      const document = await api.document(ref)
      return new DocumentModel(refOf(document), document, false)
    } catch (error) {
      if (!(error instanceof ApiError)) throw error
      const { status } = error
      void dropRefused(status, reader, ref)
      const kept = status === 0 || (status === 410 && keepsUnsaved(reader, ref)) ? keptDocument(reader, ref) : undefined
      if (!kept) throw error
      const model = new DocumentModel(refOf(kept), kept, true)
      if (status === 410) model.#isGone(status)
      return model
    }
  }

  get me(): Document["me"] {
    return this.document.me
  }

  /** The text is still to come. */
  get empty(): boolean {
    return this.alone && !this.replica && !this.readOnly
  }

  get link(): LinkState {
    const links = [this.#eventLink, this.replica ? this.#replicaLink : this.#socketLink]
    if (links.includes("down")) return "down"
    return links.includes("connecting") ? "connecting" : "open"
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
    if (this.gone) return this.#openReplica()
    const followed = this.#followLog()
    const leased = this.#readLeases()
    this.#followText()
    if (this.me.canWrite) inTurn(() => this.#openReplica())
    await Promise.all([followed, leased])
  }

  close(): void {
    this.#closed = true
    this.#subscription?.close()
    this.#replica?.close()
    this.#socket?.close()
    this.presence?.close()
    this.leases.close()
    this.places.close()
  }

  /** Opens a section to be written in; the one that was open is left. */
  writeIn(id: SectionId, at = 0): void {
    const section = this.#byId.get(id)
    if (section) section.notice = undefined
    this.editing = { section: id, at }
    this.#openReplica()
  }

  /** A section's text to be written in, by a replica that is there. Throws where the section has none any more. */
  async writing(id: SectionId): Promise<Writing> {
    const { Writings } = await import("./writing")
    if (!this.replica) throw new Error("The document cannot be written in any more.")
    this.#writings ??= new Writings(this.replica)
    const writing = this.#writings.of(id)
    await writing.begun
    return writing
  }

  /** Ends the writing in a section, if it is the one that is open. */
  leaveSection(id: SectionId): void {
    if (this.editing?.section !== id) return
    this.editing = undefined
    void tick().then(() => document.getElementById(`s-${id}`)?.focus({ preventScroll: true }))
  }

  add(text: string): Promise<Written> {
    return api.addSection(this.ref, text)
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
    return api.moveSection(this.ref, id, after)
  }

  remove(id: SectionId): Promise<unknown> {
    return api.removeSection(this.ref, id)
  }

  restore(id: SectionId): Promise<Written> {
    return api.restoreSection(this.ref, id)
  }

  /** Gives a section the text that it had at an earlier version. */
  revert(id: SectionId, to: Version): Promise<Written> {
    return api.revertSection(this.ref, id, to)
  }

  async #followLog(): Promise<void> {
    const last = Number(this.document.lastSeq)
    // A page of the log that cannot be read leaves the log empty, and the stream then begins where the text was read.
    const since = await this.log.open(last).catch(() => last)
    if (this.#closed) return
    for (const event of this.log.events) this.#noteEdit(event)
    this.#forgetWriters()
    this.#subscription = new EventSubscription(this.ref, since, {
      event: (event) => {
        this.#news.push(event)
        this.#tellNews()
      },
      link: (state, why) => this.#eventsAre(state, why),
      anew: (lastSeq) => {
        this.#news = []
        return this.log.open(lastSeq)
      },
      silent: () => {
        this.#socket?.reconnect()
        this.#replica?.reconnect()
      },
      refused: (status) => this.#refused(status),
    })
  }

  /** Follows the text, until a replica does, and who is there. */
  #followText(): void {
    const socket = new AgentSocket(this.document.documentId, {
      opening: () => (this.replica ? { view: "log" } : { view: "whole", ...(this.#text.version ? { version: this.#text.version } : {}) }),
      frame: (frame) => this.#takeFrame(frame),
      link: (state) => {
        this.#socketLink = state
        if (state === "open") this.presence?.say()
        else this.presence?.clear()
      },
      refused: (status) => this.#refused(status),
    })
    this.#socket = socket
    this.presence = new PresenceRoom(socket)
  }

  #takeFrame(frame: Frame): void {
    if (frame.type === "presence") this.presence?.take(frame as PresenceFrame)
    else if (frame.type === "opened") this.#text.begin(frame as OpenedFrame)
    else if (frame.type === "changed" && !this.#text.apply(frame as ChangedFrame)) return this.#socket?.open()
    else if (frame.type !== "changed") return
    this.#draw()
  }

  /** Shows the text as the socket told it, at most once per frame. */
  #draw(): void {
    if (this.#drawing || this.replica) return
    this.#drawing = true
    nextFrame(() => {
      this.#drawing = false
      if (!this.replica) this.#show(this.#text.content, true)
    })
  }

  #openReplica(): void {
    if (this.#replica || this.#closed) return
    const replica = new Replica(this.document.url, this.me.agent, this.alone, {
      content: (content) => this.#replicaShows(content, replica),
      unsaved: (sections) => this.#unsavedAre(sections),
      kept: (kept) => (this.kept = kept),
      link: (state) => (this.#replicaLink = state),
      refused: (closeCode) => {
        if ([4401, 4403, 4410].includes(closeCode)) this.#refused(closeCode - 4000)
        else this.#replicaFailed()
      },
      failed: (message) => {
        console.warn("The replica cannot be had; the text can be read alone:", message)
        this.#replicaFailed()
      },
    })
    this.#replica = replica
  }

  #replicaShows(content: DocumentContent, replica: Replica): void {
    const first = !this.replica
    if (first && (this.#closed || this.readOnly)) return
    this.replica = replica
    this.#show(content, true)
    if (!first) return
    // From here on the socket need not tell the text.
    this.#socket?.open()
    if (!this.alone) void noteKept(this.me.agent, this.document)
    keepShell()
  }

  #replicaFailed(): void {
    this.readOnly = true
    if (!this.replica) return
    this.replica = undefined
    this.#writings = undefined
    this.#socket?.open()
  }

  #unsavedAre(sections: SectionId[] | undefined): void {
    if (sections) this.saving = "saving"
    else if (this.saving) this.saving = "saved"
    this.unsaved = sections ?? []
    // Of who has signed out since, nothing is noted any more.
    if (!sections || session.agent === this.me.agent) noteUnsaved(this.me.agent, this.document.documentId, sections && (this.title || this.ref))
  }

  #eventsAre(state: LinkState, why = ""): void {
    this.why = why
    const returned = state === "open" && this.#eventLink === "down"
    this.#eventLink = state
    if (returned) void this.#readLeases()
  }

  #refused(status: number): void {
    if (this.#closed) return
    if (status === 401) session.expire()
    this.#isGone(status)
    this.#replica?.close(true)
    this.close()
    // Nobody may go on to write what goes nowhere.
    if (this.editing) this.leaveSection(this.editing.section)
    void dropRefused(status, this.me.agent, this.ref)
  }

  #isGone(status: number): void {
    this.deleted = status === 410
    this.gone = this.deleted ? "This document was deleted." : "This document can no longer be read with your key."
  }

  #takeNews(): void {
    if (this.#closed) return
    const events = this.#news.splice(0)
    this.log.add(...events)
    for (const event of events) {
      this.#noteEdit(event)
      this.#noteLease(event)
    }
    this.#forgetWriters()
    if (events.some((event) => event.event_type.startsWith("section.lease"))) void this.#readLeases()
    const fate = events.findLast(({ event_type: type }) => type === "document.deleted" || type === "document.restored")
    if (fate?.event_type === "document.deleted") this.#refused(410)
  }

  #noteEdit(event: LogEvent): void {
    const { sectionId: id, hashes } = event.payload as { sectionId?: unknown; hashes?: unknown }
    if (!writes.has(event.event_type) || typeof id !== "string") return
    const at = new Date(event.created_at)
    this.wroteAt.set(event.actor_id, { section: id as SectionId, at: at.getTime() })
    const section = this.#byId.get(id as SectionId)
    if (section) section.lastEdit = { author: event.actor_id, at, changes: Array.isArray(hashes) ? (hashes as string[]) : (section.lastEdit?.changes ?? []) }
  }

  /** A page that stays open sees more and more authors. */
  #forgetWriters(): void {
    const since = serverNow() - latelyMs
    for (const [agent, { at }] of this.wroteAt) if (at < since && agent !== this.following) this.wroteAt.delete(agent)
  }

  #noteLease(event: LogEvent): void {
    const id = event.payload["sectionId"] as SectionId
    if (!this.#byId.has(id)) return
    if (freed.has(event.event_type)) void this.places.ask(id)
    this.held.note(event)
  }

  async #readLeases(): Promise<void> {
    await this.leases.refresh()
    if (!this.#closed) await this.held.follow(this.leases, this.log.events.at(-1)?.seq ?? this.document.lastSeq)
  }

  #say(id: SectionId, notice: Notice): void {
    const section = this.#byId.get(id)
    if (section) section.notice = notice
  }

  #show(content: DocumentContent, live: boolean): void {
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
