// Texts with the marks of what differs, and who wrote which part. Places are counted in code points, as the server
// does; a JavaScript string counts in UTF-16 units.

import { titleOf } from "./titles"
import type { Agent, BlameRange, Document, SectionDiff, SectionId, TextOp } from "./wire"

export interface Mark {
  kind: "same" | "inserted" | "deleted"
  text: string
}

/** Marks in a text what the operations on it, in order, take out and put in. */
export function marksOf(text: string, ops: TextOp[]): Mark[] {
  const points = Array.from(text)
  const marks: Mark[] = []
  const add = (kind: Mark["kind"], text: string) => void (text && marks.push({ kind, text }))
  let at = 0
  for (const op of ops) {
    add("same", points.slice(at, op.at).join(""))
    at = op.at + (op.delete ?? 0)
    add("deleted", points.slice(op.at, at).join(""))
    add("inserted", op.insert ?? "")
  }
  add("same", points.slice(at).join(""))
  return marks
}

/** The text that the operations, in order, make of a text. */
export function applyOps(text: string, ops: TextOp[]): string {
  return marksOf(text, ops).reduce((made, mark) => (mark.kind === "deleted" ? made : made + mark.text), "")
}

/** How many characters a piece of unchanged text keeps at each end when it is shown between changes. */
const context = 200

/** Leaves out the middle of long unchanged pieces. */
export function shorten(marks: Mark[]): Mark[] {
  return marks.map((mark) => {
    const long = mark.kind === "same" && mark.text.length > 3 * context
    return long ? { ...mark, text: `${cut(mark.text.slice(0, context))}\n\n[…]\n\n${mark.text.slice(-context).replace(/^[\udc00-\udfff]/, "")}` } : mark
  })
}

const cut = (text: string) => text.replace(/[\ud800-\udbff]$/, "")

/** What became of a section, in a word, and the marks of it. */
export interface Change {
  id: SectionId
  name: string
  what: "added" | "removed" | "restored" | "changed" | "moved"
  marks: Mark[]
}

/** Reads what became of a section since a version of its document. */
export function changeOf(section: SectionDiff, before: Pick<Document, "sections" | "removed">): Change {
  const living = before.sections.find(({ id }) => id === section.id)
  const text = (living ?? before.removed.find(({ id }) => id === section.id))?.text ?? section.text
  const change = (what: Change["what"], marks: Mark[]) => ({ id: section.id, name: titleOf({ id: section.id, text }).name, what, marks })
  if (section.made) return change("added", [{ kind: "inserted", text: section.text }])
  if (section.gone || (section.removed && living)) return change("removed", [{ kind: "deleted", text }])
  if (!section.removed && !living) return change("restored", [{ kind: "inserted", text }])
  return section.ops.length ? change("changed", shorten(marksOf(text, section.ops))) : change("moved", [])
}

/** A passage by one author; undefined where that is not known. */
export interface Passage {
  text: string
  agent: Agent | undefined
}

export function passagesOf(text: string, ranges: BlameRange[]): Passage[] {
  const points = Array.from(text)
  return ranges.map(({ at, length, agent }) => ({ text: points.slice(at, at + length).join(""), agent }))
}
