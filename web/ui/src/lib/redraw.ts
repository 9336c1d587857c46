// Puts newly rendered content in the place of the old one, touching only the elements that differ, so that the
// reader's selection and place survive others' writing. What is new is marked for a moment.

import { changedSpan } from "./span"

/**
 * Brings container to show next in the place of its children from one to before another (all, if nothing else is said),
 * and gives the elements that are new or hold new text.
 */
export function redraw(container: Element, next: DocumentFragment, from = 0, to = container.children.length): Element[] {
  const fresh: Element[] = []
  redrawChildren(container, next, fresh, from, to)
  return fresh
}

function redrawChildren(now: Element, next: ParentNode, fresh: Element[], from = 0, to = now.children.length): void {
  const before = Array.from({ length: to - from }, (_, i) => now.children[from + i]!)
  const limit = now.children[to] ?? null
  const after = [...next.children]
  let start = 0
  while (start < before.length && start < after.length && before[start]!.isEqualNode(after[start]!)) start++
  let end = 0
  while (end < before.length - start && end < after.length - start && before.at(-1 - end)!.isEqualNode(after.at(-1 - end)!)) end++

  const old = before.slice(start, before.length - end)
  const behind = before[before.length - end] ?? limit
  after.slice(start, after.length - end).forEach((element, i) => {
    const counterpart = old[i]
    if (!counterpart) {
      now.insertBefore(element, behind)
      fresh.push(element)
    } else if (counterpart.isEqualNode(element)) {
      return
    } else if (counterpart.cloneNode(false).isEqualNode(element.cloneNode(false)) && isBox(counterpart) && isBox(element)) {
      redrawChildren(counterpart, element, fresh)
    } else {
      counterpart.replaceWith(element)
      mark(counterpart, element)
      fresh.push(element)
    }
  })
  for (const gone of old.slice(after.length - end - start)) gone.remove()
}

/** An element that holds nothing but other elements, such as a list or a table. */
function isBox(element: Element): boolean {
  return element.children.length > 0 && [...element.childNodes].every((node) => node instanceof Element || !node.nodeValue?.trim())
}

/** How long new text is tinted, in milliseconds; the second half fainter. */
export const freshMs = 3_000

const tints = "Highlight" in globalThis ? { new: tint("fresh"), older: tint("fresh-older") } : undefined

function tint(name: string): Highlight {
  const highlight = new Highlight()
  CSS.highlights.set(name, highlight)
  return highlight
}

/**
 * Tints the characters of element that stand between what it has in common with old, by the CSS highlight API.
 * The element has to be in the document already: a range does not move along with its nodes.
 */
function mark(old: Element, element: Element): void {
  if (!tints) return
  const [from, to] = changedSpan(old.textContent, element.textContent)
  const range = rangeOf(element, from, to)
  if (!range) return
  tints.new.add(range)
  setTimeout(() => {
    tints.new.delete(range)
    tints.older.add(range)
  }, freshMs / 2)
  setTimeout(() => tints.older.delete(range), freshMs)
}

function rangeOf(element: Element, from: number, to: number): Range | undefined {
  if (from >= to) return undefined
  const range = new Range()
  const texts = document.createTreeWalker(element, NodeFilter.SHOW_TEXT)
  let offset = 0
  for (let node = texts.nextNode(); node; node = texts.nextNode()) {
    const length = node.nodeValue!.length
    if (from >= offset && from < offset + length) range.setStart(node, from - offset)
    if (to > offset && to <= offset + length) {
      range.setEnd(node, to - offset)
      return range
    }
    offset += length
  }
  return undefined
}
