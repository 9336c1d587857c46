// Markdown that anybody may have written, rendered so that nothing in it can run. Two walls stand behind one
// another: the parser is told to treat HTML as text and to refuse script addresses, and what it made is cleaned
// by DOMPurify down to a list of harmless elements.

import DOMPurify from "dompurify"
import MarkdownIt from "markdown-it"

const parser = new MarkdownIt({ html: false, linkify: true, typographer: false })

// An image on another host would tell that host who reads the document: such images become links. Images
// that travel in the text itself (data:, raster formats only: the parser refuses the rest) are shown.
parser.renderer.rules["image"] = (tokens, index, options, env, renderer) => {
  const token = tokens[index]!
  const src = String(token.attrGet("src") ?? "")
  const alt = renderer.renderInlineAsText(token.children ?? [], options, env)
  const { escapeHtml } = parser.utils
  if (src.startsWith("data:image/")) return `<img src="${escapeHtml(src)}" alt="${escapeHtml(alt)}">`
  return `<a class="image" href="${escapeHtml(src)}">${escapeHtml(alt || src)}</a>`
}

const purifier = DOMPurify(window)

purifier.addHook("afterSanitizeAttributes", (node) => {
  if (node.nodeName === "A") {
    node.setAttribute("target", "_blank")
    node.setAttribute("rel", "noopener noreferrer nofollow")
  }
  // What may be wider than the page scrolls by itself, which has to work without a mouse.
  if (node.nodeName === "PRE" || node.nodeName === "TABLE") node.setAttribute("tabindex", "0")
})

const allowed = {
  ALLOWED_TAGS: [
    ..."h1 h2 h3 h4 h5 h6 p br hr blockquote ul ol li pre code em strong s a img".split(" "),
    ..."table thead tbody tr th td".split(" "),
  ],
  ALLOWED_ATTR: ["href", "title", "src", "alt", "class", "start"],
  ALLOW_DATA_ATTR: false,
  ALLOW_ARIA_ATTR: false,
}

/** Beyond this many characters a section is shown as plain text, so that no text freezes the page. */
export const renderLimit = 400_000

/** Renders one section. What comes back has no script, style, form or frame in it. */
export function renderMarkdown(text: string): DocumentFragment {
  const { matter, rest } = splitFrontMatter(text)
  const html = rest.length > renderLimit ? plain(rest) : parser.render(rest)
  return purifier.sanitize(matter ? plain(matter) + html : html, { ...allowed, RETURN_DOM_FRAGMENT: true })
}

function plain(text: string): string {
  return `<pre class="plain"><code>${parser.utils.escapeHtml(text)}</code></pre>`
}

// YAML between two lines of three dashes would else be read as a rule and a heading.
function splitFrontMatter(text: string): { matter: string; rest: string } {
  const found = /^---[ \t]*\r?\n(?=[^\n]*:)([\s\S]*?)\r?\n(?:---|\.\.\.)[ \t]*(?:\r?\n|$)/.exec(text)
  return found ? { matter: found[1]!, rest: text.slice(found[0].length) } : { matter: "", rest: text }
}

/** The text of the first heading, without its marks, and its level; level 0 is no heading. */
export function headingOf(text: string): { heading: string; level: number } {
  // Nearly every section begins with its heading in one line, and then no more has to be parsed.
  const source = /^#{1,6}[ \t][^\n]*/.exec(text)?.[0] ?? splitFrontMatter(text).rest.slice(0, 2_000)
  const tokens = parser.parse(source, {})
  const at = tokens.findIndex((token) => token.type === "heading_open")
  const inline = tokens[at + 1]
  if (at < 0 || !inline) return { heading: "", level: 0 }
  return { heading: parser.renderer.renderInlineAsText(inline.children ?? [], parser.options, {}), level: Number(tokens[at]!.tag.slice(1)) }
}
