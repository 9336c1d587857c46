// What sections are called.

import { headingOf } from "./markdown"
import type { SectionContent } from "./sections"

/** What a section is called, its heading or its first words or its id, and the level of the heading, 0 without one. */
export function titleOf(section: Pick<SectionContent, "id" | "text">): { name: string; level: number } {
  const { heading, level } = headingOf(section.text)
  const line = section.text.trim().split("\n", 1)[0]!
  return { name: heading || (line.length > 40 ? `${line.slice(0, 40).trimEnd()}…` : line || section.id), level }
}
