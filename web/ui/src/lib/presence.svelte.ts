// Who else has the document open, over the socket of agents: pages and agents say there where they are, and the server
// puts the name of the key to it, so that nobody can pass for another.

import type { Place } from "../replica/messages"
import type { AgentSocket, Frame } from "./agentsocket"
import { nextFrame } from "./frame"
import { people } from "./people.svelte"
import type { Agent, SectionId } from "./wire"

/** What a page says of its reader. Agents may say anything, or nothing. */
interface PageState {
  page: true
  /** An Automerge cursor in the section's text: where the reader's caret is. */
  cursor?: string
  /** Where the reader's selection begins, if anything is selected. */
  anchor?: string
}

export interface Presence {
  agent: Agent
  section: SectionId | undefined
  place: Place | undefined
}

export interface PresenceFrame extends Frame {
  agent: Agent
  session: string
  section?: SectionId
  state?: Partial<PageState> | null
  expiresInMs?: number
  gone?: true
}

/** How long the server keeps a presence, and how often it is said anew, in milliseconds. */
const ttlMs = 30_000
const repeatMs = 20_000
/** A caret that is moved fast is told no more often than this, in milliseconds. */
const restMs = 80

export class PresenceRoom {
  others = $state.raw<Presence[]>([])
  #all = new Map<string, Presence & { until: number }>()
  #own: { section: SectionId | undefined; place: Place | undefined } = { section: undefined, place: undefined }
  #resting: ReturnType<typeof setTimeout> | undefined
  #drawing = false
  readonly #repeat: ReturnType<typeof setInterval>

  constructor(private readonly socket: AgentSocket) {
    this.#repeat = setInterval(() => {
      this.say()
      this.#draw()
    }, repeatMs)
  }

  close(): void {
    clearInterval(this.#repeat)
    clearTimeout(this.#resting)
  }

  /** Says where the reader is; nothing of either is also something to say. */
  at(section: SectionId | undefined, place?: Place): void {
    this.#own = { section, place }
    this.#resting ??= setTimeout(() => {
      this.#resting = undefined
      this.say()
    }, restMs)
  }

  /** Says it now. Whoever opens the document says it then; a document that is opened anew forgets it. */
  say(): void {
    const { section, place } = this.#own
    const state: PageState = { page: true, ...(place && { cursor: place.head }), ...(place && place.anchor !== place.head && { anchor: place.anchor }) }
    this.socket.send({ type: "presence", ...(section ? { section } : {}), state, ttlSeconds: ttlMs / 1000 })
  }

  /** Forgets who is there: the line that told it is cut. */
  clear(): void {
    this.#all.clear()
    this.#draw()
  }

  take({ agent, session, section, state, expiresInMs = ttlMs, gone }: PresenceFrame): void {
    if (gone) this.#all.delete(session)
    else {
      if (state?.page === true) people.add(agent)
      this.#all.set(session, { agent, section, place: placeIn(state), until: performance.now() + expiresInMs })
    }
    this.#draw()
  }

  #draw(): void {
    if (this.#drawing) return
    this.#drawing = true
    // In a hidden tab too, or it would gather whoever came and went.
    nextFrame(() => {
      this.#drawing = false
      const now = performance.now()
      for (const [session, { until }] of this.#all) if (until < now) this.#all.delete(session)
      this.others = [...this.#all.values()]
    })
  }
}

/** Anybody may say anything of themselves: what is no place is left out. */
function placeIn(state: Partial<PageState> | null | undefined): Place | undefined {
  const { cursor: head, anchor } = state ?? {}
  if (typeof head !== "string") return undefined
  return { head, anchor: typeof anchor === "string" ? anchor : head }
}
