// The versions of a document that its log names.

import { sectionOf } from "./timeline"
import type { LogEvent, SectionId, Version } from "./wire"

/** The state of a document right after an event. */
export interface VersionEntry {
  version: Version
  event: LogEvent
}

/** The versions that events made, oldest first; of one section only, if one is given. */
export function versionsOf(events: LogEvent[], section: SectionId | ""): VersionEntry[] {
  const versions: VersionEntry[] = []
  for (const event of events) {
    const version = event.payload?.["version"]
    if (typeof version !== "string" || event.event_type === "section.overlap" || (section && !madeIn(event, section))) continue
    versions.push({ version: version as Version, event })
  }
  return versions
}

/** Whether a section became what it is by an event: its own, or the one that made the document with it. */
function madeIn(event: LogEvent, section: SectionId): boolean {
  const { sections } = event.payload
  return sectionOf(event) === section || (event.event_type === "document.created" && Array.isArray(sections) && sections.includes(section))
}
