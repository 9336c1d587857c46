// Where two authors changed the same words at the same time. The merge kept both texts; a person should look.

import type { Agent, LogEvent, SectionId } from "./wire"

export interface Overlap {
  id: string
  section: SectionId
  /** Who wrote later, then those whose text was there already. */
  later: Agent
  earlier: Agent[]
  at: Date
  places: { before: string; later: string; earlier: string }[]
}

/** Reads the payload of section.overlap; undefined for any other event. */
export function overlapOf(event: LogEvent): Overlap | undefined {
  if (event.event_type !== "section.overlap") return undefined
  const { sectionId, authors, places } = event.payload as { sectionId?: unknown; authors?: unknown; places?: unknown }
  if (typeof sectionId !== "string" || !Array.isArray(authors) || !Array.isArray(places)) return undefined
  const [later, ...earlier] = authors.filter((author): author is Agent => typeof author === "string")
  if (!later || earlier.length === 0) return undefined
  return {
    id: event.id,
    section: sectionId as SectionId,
    later,
    earlier,
    at: new Date(event.created_at),
    places: places.map((place: Record<string, unknown> | null) => ({ before: text(place?.["text"]), later: text(place?.["mine"]), earlier: text(place?.["their"]) })),
  }
}

const text = (value: unknown): string => (typeof value === "string" ? value : "")

const storageKey = "cowrite.seen-overlaps"
/** So many are remembered as seen; older ones have left the page's log by then. */
const keptIds = 500

/** Which overlaps this reader has looked at; the browser remembers it. */
class SeenOverlaps {
  #ids = $state.raw(new Set(read()))

  has(id: string): boolean {
    return this.#ids.has(id)
  }

  add(id: string): void {
    // Another tab may have added its own since.
    const ids = [...new Set([...read(), ...this.#ids, id])].slice(-keptIds)
    this.#ids = new Set(ids)
    try {
      localStorage.setItem(storageKey, JSON.stringify(ids))
    } catch {
      // Without storage it holds until the page is left.
    }
  }
}

function read(): string[] {
  try {
    const ids: unknown = JSON.parse(localStorage.getItem(storageKey) ?? "[]")
    return Array.isArray(ids) ? ids.filter((id) => typeof id === "string") : []
  } catch {
    return []
  }
}

export const seenOverlaps = new SeenOverlaps()
