// Events of the log as sentences for people.

import { durations } from "./duration"
import type { Agent, LogEvent, SectionId } from "./wire"

/** A piece of a sentence: plain words, the name of an author, or a section to jump to. */
export type Part = { text: string } | { author: Agent } | { section: SectionId }

const system = "system"

/** The sentence of an event. What the payload lacks is left out; an unknown type is named as it is. */
export function describe(event: LogEvent): Part[] {
  const p = new Payload(event)
  const actor = event.actor_id === system ? [{ text: "The server" }] : [{ author: event.actor_id }]
  const says = (...rest: (string | Part | Part[])[]): Part[] =>
    [...actor, ...rest]
      .flat()
      .filter((part) => part !== "")
      .map((part) => (typeof part === "string" ? { text: part } : part))
  const reason = p.text("reason") ? [`: ${p.text("reason")}`] : []

  switch (event.event_type) {
    case "document.created":
      return says(" created the document")
    case "document.renamed":
      return says(" gave the document the address ", p.text("to", "slug") || "of another name")
    case "document.retitled":
      return says(p.has("title") ? ` titled the document “${p.text("title")}”` : " changed the title")
    case "document.edited":
      return says(" changed something outside the sections")
    case "document.deleted":
      return says(" deleted the document")
    case "document.restored":
      return says(" brought the document back")
    case "document.blocked":
      return says(" took the document out of service", ...reason)
    case "document.unblocked":
      return says(" put the document back into service")
    case "document.shared":
      return says(" shared the document with readers by a link", p.duration(" for "))
    case "document.unshared":
      return says(" ended a link that ", p.author("maker", "somebody"), " shared the document by")
    case "section.created":
      return says(" added ", p.section())
    case "section.edited":
      return says(" wrote in ", p.section(), p.payload["merged"] === true ? ", merged with what others wrote meanwhile" : "")
    case "section.moved":
      return says(" moved ", p.section())
    case "section.removed":
      return says(" removed ", p.section())
    case "section.restored":
      return says(" brought back ", p.section())
    case "section.conflict":
      return says(" kept both texts of ", p.section(), ", which two authors created at once")
    case "section.overlap": {
      const earlier = p.names("authors").slice(1).flatMap((author) => [{ text: " and " }, { author }])
      return says(...(earlier.length ? earlier : [" and others"]), " changed the same words in ", p.section())
    }
    case "section.fence_stale":
      return says(" wrote in ", p.section(), " after the lease had passed on to another")
    case "section.leased":
      return says(" took the lease on ", p.section(), p.duration(" for "), ...reason)
    case "section.lease_renewed":
      return says(" renewed the lease on ", p.section(), p.duration(" for "), ...reason)
    case "section.lease_released":
      return says(" released the lease on ", p.section())
    case "section.lease_expired":
      return [...p.author("holder", "The holder"), { text: "’s lease on " }, ...p.section(), { text: " ran out" }]
    case "section.lease_ended":
      return [...p.author("holder", "The holder"), { text: "’s lease on " }, ...p.section(), { text: " was ended" }, ...reason.map((text) => ({ text }))]
    case "section.lease_broken":
      return says(" took the lease on ", p.section(), " away from ", p.author("holder", "its holder"), ...reason)
    case "section.lease_transferred":
      return says(" handed the lease on ", p.section(), " to ", p.author("to", "another", "holder"))
    case "section.lease_overridden":
      return says(" wrote in ", p.section(), " while ", p.author("holder", "another"), " held the lease")
    case "section.lease_queued":
      return says(" waits for the lease on ", p.section(), ...reason)
    case "section.lease_unqueued":
      return says(" no longer waits for ", p.section())
    case "section.lease_reserved":
      return [...p.section(), { text: " is kept for " }, ...p.author("agent", "the next in line", "reservedFor", "holder")]
    case "section.lease_lapsed":
      return [...p.author("agent", "Somebody", "holder"), { text: " lost the place in line for " }, ...p.section()]
    case "section.lease_deadlock":
      return says(" was refused the lease on ", p.section(), ": waiting for it would never end")
    case "message.posted":
      return says(": ", p.message(), ...(p.has("sectionId") ? [" · ", p.section()] : []))
    default:
      return says(` · ${event.event_type.replace(/[._]/g, " ")}`, p.has("sectionId") ? [{ text: " · " }, ...p.section()] : [])
  }
}

/** The sentence as plain text. */
export function plainSentence(event: LogEvent, nameOf: (id: SectionId) => string): string {
  return describe(event)
    .map((part) => ("text" in part ? part.text : "author" in part ? part.author : nameOf(part.section)))
    .join("")
}

/** Reads a payload, which anybody may have posted, without trusting its shape. */
class Payload {
  readonly payload: Record<string, unknown>

  constructor(private readonly event: LogEvent) {
    this.payload = event.payload ?? {}
  }

  has(name: string): boolean {
    return this.text(name) !== ""
  }

  /** The first of the named fields that is a string. */
  text(...names: string[]): string {
    for (const name of names) {
      const value = this.payload[name]
      if (typeof value === "string" && value) return value
    }
    return ""
  }

  /** The strings of a list. */
  names(name: string): Agent[] {
    const value = this.payload[name]
    return Array.isArray(value) ? value.filter((item): item is Agent => typeof item === "string") : []
  }

  author(name: string, otherwise: string, ...names: string[]): Part[] {
    const found = this.text(name, ...names)
    return [found ? { author: found as Agent } : { text: otherwise }]
  }

  section(): Part[] {
    const id = this.text("sectionId", "section")
    return [id ? { section: id as SectionId } : { text: "a section" }]
  }

  /** How long the lease ran from the instant of the event on. */
  duration(before: string): string {
    const ms = Date.parse(this.text("expiresAt")) - Date.parse(this.event.created_at)
    return ms > 0 ? before + durations.ofSeconds(Math.round(ms / 1000)) : ""
  }

  message(): string {
    return this.text("text", "message", "body") || shorten(JSON.stringify(this.payload))
  }
}

function shorten(text: string): string {
  return text.length > 200 ? `${text.slice(0, 200)}…` : text
}
