// From a place in rendered Markdown to the place in its source.

/**
 * The offset in source of what stands at an offset in one of the container's text nodes. Texts are looked for in the
 * source in the order in which they are drawn; one that is written otherwise there (an entity, an escape) counts as its
 * neighbours stand, so the answer may be off by a few characters, never by a paragraph.
 */
export function sourceOffset(source: string, container: Element, node: Node, offset: number): number {
  const texts = document.createTreeWalker(container, NodeFilter.SHOW_TEXT)
  let from = 0
  for (let text = texts.nextNode(); text; text = texts.nextNode()) {
    const [line] = text.nodeValue!.split("\n", 1) as [string]
    const found = line.trim() ? source.indexOf(line, from) : -1
    if (text === node || node.contains(text)) return found < 0 ? from : found + (text === node ? offset : 0)
    if (found >= 0) from = found + text.nodeValue!.length
  }
  return from
}
