// Markdown that anybody may have written, rendered so that nothing in it can run. Two walls stand behind one
// another: the parser is told to treat HTML as text and to refuse script addresses, and what it made is cleaned
// by DOMPurify down to a list of harmless elements.

import DOMPurify from "dompurify"
import MarkdownIt, { type Env, type Token } from "markdown-it"

// A list in a list counts twice: 99 of them are drawn.
const options = { html: false, linkify: true, typographer: false, maxNesting: 200 }

// Which blocks a text has is quickly told. What stands within them is dear, and is read as they are drawn.
const blockParser = new MarkdownIt(options)
blockParser.core.ruler.enableOnly(["normalize", "block"])
const parser = new MarkdownIt(options)
parser.core.ruler.enableOnly(["inline", "linkify", "text_join"])

// The marks of a long paragraph can be nested so that reading them takes minutes: they are shown as they are.
const inlineLimit = 20_000
/** Images that travel in the text do not count: they are long, and quickly read. */
const embedded = /data:image\/[a-z]+;base64,[\w+/=]+/g
parser.core.ruler.before("inline", "long", ({ tokens, Token }) => {
  for (const token of tokens) {
    if (token.type !== "inline" || token.content.length <= inlineLimit || token.content.replace(embedded, "").length <= inlineLimit) continue
    const text = new Token("text", "", 0)
    text.content = token.content
    token.children = [text]
    token.content = ""
  }
})

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
/** Plain text is drawn in blocks of about so many characters. */
const plainBlock = 16_000

/** A text as what stands one below the other in it: each block becomes one element. */
export interface Blocks {
  /** The source of each block, in order. */
  readonly sources: readonly string[]
  /** The link definitions, which any block may refer to. */
  readonly references: string
  /** Renders the blocks from one to before another. What comes back has no script, style, form or frame in it. */
  render(from: number, to: number): DocumentFragment
}

export function blocksOf(text: string): Blocks {
  const { matter, rest } = splitFrontMatter(text)
  const { sources, references, html } = rest.length > renderLimit ? plainBlocks(rest) : markdownBlocks(rest)
  const skip = matter ? 1 : 0
  return {
    sources: matter ? [matter, ...sources] : sources,
    references,
    render(from, to) {
      const head = from < skip ? plain(matter) : ""
      return purifier.sanitize(head + html(Math.max(0, from - skip), to - skip), { ...allowed, RETURN_DOM_FRAGMENT: true })
    },
  }
}

interface SourceBlocks {
  sources: string[]
  references: string
  html(from: number, to: number): string
}

function markdownBlocks(text: string): SourceBlocks {
  const env: Env = {}
  const tokens = blockParser.parse(text, env)
  const lines = text.split(/\r\n?|\n/)
  const sources: string[] = []
  const starts: number[] = []
  tokens.forEach((token, i) => {
    if (token.level !== 0 || token.nesting < 0 || token.hidden) return // a link definition is hidden
    starts.push(i)
    sources.push(token.map ? lines.slice(...token.map).join("\n") : "")
  })
  starts.push(tokens.length)
  return {
    sources,
    references: JSON.stringify(env.references ?? {}),
    html(from, to) {
      const shown = tokens.slice(starts[from], starts[to])
      readInline(shown, env)
      return parser.renderer.render(shown, parser.options, env)
    },
  }
}

function plainBlocks(text: string): SourceBlocks {
  const sources: string[] = []
  for (let at = 0, end = 0; at < text.length; at = end) {
    end = text.indexOf("\n", at + plainBlock) + 1 || text.length
    sources.push(text.slice(at, end))
  }
  return { sources, references: "", html: (from, to) => sources.slice(from, to).map(plain).join("") }
}

/** Reads what stands within blocks, once. */
function readInline(tokens: Token[], env: Env): void {
  const state = new parser.core.State("", parser, env)
  state.tokens = tokens.filter((token) => token.children === null || token.children.length === 0)
  parser.core.process(state)
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
  const env: Env = {}
  const tokens = blockParser.parse(source, env)
  const at = tokens.findIndex((token) => token.type === "heading_open")
  const inline = tokens[at + 1]
  if (at < 0 || !inline) return { heading: "", level: 0 }
  readInline([inline], env)
  return { heading: parser.renderer.renderInlineAsText(inline.children ?? [], parser.options, env), level: Number(tokens[at]!.tag.slice(1)) }
}
