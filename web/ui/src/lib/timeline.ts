// The log as a timeline: which events are of what kind, and which are told together.

import type { Agent, LogEvent, SectionId } from "./wire"

export const kinds = {
  writing: "Writing",
  sections: "Sections",
  leases: "Leases",
  messages: "Messages",
  document: "Document",
} as const

export type Kind = keyof typeof kinds

export function kindOf({ event_type: type }: LogEvent): Kind {
  if (["section.edited", "section.overlap", "section.conflict", "section.lease_overridden"].includes(type)) return "writing"
  if (type.startsWith("section.lease") || type === "section.fence_stale") return "leases"
  if (type.startsWith("section.")) return "sections"
  if (type.startsWith("document.")) return "document"
  return "messages"
}

/** The section that an event is about. */
export function sectionOf({ payload }: LogEvent): SectionId | undefined {
  const id = payload?.["sectionId"]
  return typeof id === "string" ? (id as SectionId) : undefined
}

/** What a reader wants to see of the log; "" is anything. */
export interface Filter {
  agent: Agent | ""
  section: SectionId | ""
  kind: Kind | ""
}

export function passes(event: LogEvent, { agent, section, kind }: Filter): boolean {
  return (!agent || event.actor_id === agent || event.payload?.["holder"] === agent) && (!section || sectionOf(event) === section) && (!kind || kindOf(event) === kind)
}

/** Events that are told in one entry, newest first. */
export type Entry = readonly [LogEvent, ...LogEvent[]]

const repeatable = new Set(["section.edited", "section.lease_renewed", "section.lease_overridden"])

/** Puts events, newest first, into entries: what one author does again and again in one section is one of them. */
export function fold(events: LogEvent[]): Entry[] {
  const entries: [LogEvent, ...LogEvent[]][] = []
  for (const event of events) {
    const entry = entries.at(-1)
    if (entry && repeats(entry[0], event)) entry.push(event)
    else entries.push([event])
  }
  return entries
}

function repeats(a: LogEvent, b: LogEvent): boolean {
  return repeatable.has(a.event_type) && a.event_type === b.event_type && a.actor_id === b.actor_id && sectionOf(a) === sectionOf(b) && a.payload?.["holder"] === b.payload?.["holder"]
}
