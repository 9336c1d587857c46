// A document's sections as they stand in a replica. A replica may hold anything at all: what does not fit is
// passed over, never thrown at.

import type { SectionId } from "./wire"

export interface SectionContent {
  id: SectionId
  text: string
  /** A fractional index; "" where it is missing or no string. */
  position: string
}

export interface DocumentContent {
  title: string
  sections: SectionContent[]
  /** Taken out, and kept so that they can be restored. */
  removed: SectionContent[]
}

/** Reads Text and scalar strings alike; anything else is undefined. */
export type ReadString = (value: unknown) => string | undefined

/** Reads the root of a replica: the living sections and the removed ones, each in order. */
export function readContent(root: unknown, readString: ReadString): DocumentContent {
  const title = readString(property(root, "title")) ?? ""
  const map = property(root, "sections")
  const sections: SectionContent[] = []
  const removed: SectionContent[] = []
  for (const [id, section] of isMap(map) ? Object.entries(map) : []) {
    if (!isSectionId(id) || !isMap(section)) continue
    const text = readString(section["body"])
    if (text === undefined) continue
    const list = section["removed"] === true ? removed : sections
    list.push({ id, text, position: readString(section["position"]) ?? "" })
  }
  return { title, sections: sections.sort(compareSections), removed: removed.sort(compareSections) }
}

/** Orders by position, then id; a section without a position comes last. */
export function compareSections(a: SectionContent, b: SectionContent): number {
  if (!a.position !== !b.position) return a.position ? -1 : 1
  return compareBytes(a.position, b.position) || compareBytes(a.id, b.id)
}

function compareBytes(a: string, b: string): number {
  return a < b ? -1 : a > b ? 1 : 0
}

function isSectionId(id: string): id is SectionId {
  return /^[a-z0-9][a-z0-9-]{0,63}$/.test(id)
}

function isMap(value: unknown): value is Record<string, unknown> {
  return typeof value === "object" && value !== null && !Array.isArray(value)
}

function property(value: unknown, name: string): unknown {
  return isMap(value) ? value[name] : undefined
}
