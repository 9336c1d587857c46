// @vitest-environment jsdom

import { describe, expect, test } from "vitest"
import { blocksOf, headingOf, renderLimit } from "../src/lib/markdown"
import { random } from "./random"

function renderMarkdown(markdown: string): DocumentFragment {
  const blocks = blocksOf(markdown)
  return blocks.render(0, blocks.sources.length)
}

function html(markdown: string): string {
  const box = document.createElement("div")
  box.append(renderMarkdown(markdown))
  return box.innerHTML
}

/** Everything in what was rendered that could run, load or lead astray. */
function dangers(markdown: string): string[] {
  const box = document.createElement("div")
  box.append(renderMarkdown(markdown))
  const found: string[] = []
  for (const element of box.querySelectorAll("*")) {
    if (/^(script|style|iframe|object|embed|form|input|link|meta|base|svg|math|template)$/i.test(element.tagName)) found.push(element.tagName)
    for (const { name, value } of element.attributes) {
      if (/^on|^style$|^id$|^name$|^srcset$/i.test(name)) found.push(`${name}=${value}`)
      if (name === "href" && !/^(https?:|mailto:|#|\/|[^:]*$)/i.test(value)) found.push(`${name}=${value}`)
      if (name === "src" && !/^data:image\/(png|jpeg|gif|webp);/i.test(value)) found.push(`${name}=${value}`)
    }
  }
  return found
}

// What draws them anew counts on it.
test("each block is one element, alone and among others", () => {
  const parts = ["# A\n", "a *b* [c]\n", "\n", "- a\n- b\n", "  - c\n\n", "1. x\n", "> q\n", "```\ncode\n\n```\n", "    code\n", "| a |\n|---|\n| b |\n", "---\n", "[c]: /d\n", "<p>x</p>\n\n", "===\n", "\r\n", "![i](/j)\n\n", "\\\n"]
  const seed = Date.now() % 1_000_000
  const pick = random(seed)
  for (let i = 0; i < 25; i++) {
    const text = Array.from({ length: pick(20) }, () => parts[pick(parts.length)]!).join("")
    const { sources, render } = blocksOf(text)
    const whole = [...render(0, sources.length).children]
    expect(whole.length, `seed ${seed}: ${JSON.stringify(text)}`).toBe(sources.length)
    sources.forEach((_, at) => expect(render(at, at + 1).firstElementChild?.outerHTML, `seed ${seed}: ${JSON.stringify(text)}`).toBe(whole[at]!.outerHTML))
  }
})

test("no blocks are nothing, wherever they would stand", () => {
  const { sources, render } = blocksOf("# A\n\nOne.\n")
  expect([0, 1, 2].map((at) => render(at, at).childNodes.length)).toEqual([0, 0, 0])
  expect(render(1, sources.length).textContent).toBe("One.\n")
})

test("a long paragraph is shown as it is written, but for its images", () => {
  expect(html(`*a* ![b](data:image/png;base64,${"A".repeat(30_000)})`)).toContain("<em>a</em> <img ")
  expect(html("![".repeat(200_000))).toBe(`<p>${"![".repeat(200_000)}</p>\n`)
})

test("long plain text comes in blocks, and none of it is lost", () => {
  const text = "<b>one</b> line\n".repeat(renderLimit / 10)
  const { sources, render } = blocksOf(text)
  expect(sources.length).toBeGreaterThan(10)
  expect(render(0, sources.length).textContent).toBe(text)
})

describe("nothing that a document holds can run", () => {
  test.each([
    "<script>alert(1)</script>",
    "<img src=x onerror=alert(1)>",
    "<svg onload=alert(1)><animate onbegin=alert(1)>",
    "<iframe srcdoc='<script>alert(1)</script>'></iframe>",
    "<a href='javascript:alert(1)'>x</a>",
    "[x](javascript:alert(1))",
    "[x](JaVaScRiPt:alert(1))",
    "[x](java\tscript:alert(1))",
    "[x](&#106;avascript:alert(1))",
    "[x](vbscript:x)",
    "[x](data:text/html;base64,PHNjcmlwdD5hbGVydCgxKTwvc2NyaXB0Pg==)",
    "![x](javascript:alert(1))",
    "![x](data:image/svg+xml;base64,PHN2ZyBvbmxvYWQ9YWxlcnQoMSk+)",
    '![x](https://a.example/"onerror=alert(1))',
    "![\"><script>alert(1)</script>](https://a.example/x.png)",
    "<javascript:alert(1)>",
    "`<script>`\n\n```\n</code></pre><script>alert(1)</script>\n```",
    "```\"><script>alert(1)</script>\nx\n```",
    "---\ntitle: </code><script>alert(1)</script>\n---\n",
    "<form action=https://evil.example><input name=key></form>",
    "<style>*{display:none}</style><base href=https://evil.example><meta http-equiv=refresh content=0>",
    "<math><mtext><table><mglyph><style><img src=x onerror=alert(1)>",
    "[x]: javascript:alert(1)\n\n[x]",
    "| <script>alert(1)</script> |\n| --- |\n| <img src=x onerror=alert(1)> |",
  ])("%s", (markdown) => {
    expect(dangers(markdown)).toEqual([])
  })

  test("neither does plain text that is too long to be parsed", () => {
    expect(dangers("<img src=x onerror=alert(1)>".padEnd(renderLimit + 1))).toEqual([])
  })
})

test("ordinary Markdown looks as it should", () => {
  expect(html("## A *fine* `day`\n\n1. one\n2. two\n")).toBe("<h2>A <em>fine</em> <code>day</code></h2>\n<ol>\n<li>one</li>\n<li>two</li>\n</ol>\n")
  expect(html("| a |\n| - |\n| 1 |\n")).toContain("<td>1</td>")
})

test("links open elsewhere and say nothing of where they were found", () => {
  expect(html("[x](https://a.example/)")).toBe('<p><a href="https://a.example/" target="_blank" rel="noopener noreferrer nofollow">x</a></p>\n')
})

test("an image on another host is not fetched but linked", () => {
  const shown = html("![a chart](https://a.example/x.png)")
  expect(shown).toContain('href="https://a.example/x.png"')
  expect(shown).toContain(">a chart</a>")
  expect(shown).not.toContain("<img")
})

test("an image in the text itself is shown", () => {
  expect(html("![dot](data:image/png;base64,iVBORw0KGgo=)")).toContain('<img src="data:image/png;base64,iVBORw0KGgo=" alt="dot">')
})

test("front matter is shown as it is", () => {
  expect(html("---\ntitle: x\n---\n# H\n")).toBe('<pre class="plain" tabindex="0"><code>title: x</code></pre><h1>H</h1>\n')
})

test("lists nested 200 deep render, the first 99 with all that is in them", () => {
  expect(html(Array.from({ length: 200 }, (_, i) => `${"  ".repeat(i)}- ${i}`).join("\n"))).toContain("<li>98")
})

test.each([
  ["# One\n", { heading: "One", level: 1 }],
  ["## The *second* `one` [link](x)\ntext", { heading: "The second one link", level: 2 }],
  ["Underlined\n===\n", { heading: "Underlined", level: 1 }],
  ["\n\nUnderlined\n---\r\n", { heading: "Underlined", level: 2 }],
  ["#\tTabbed #\r\n", { heading: "Tabbed", level: 1 }],
  ["#hashtag\n", { heading: "", level: 0 }],
  ["```\n# code\n```\n", { heading: "", level: 0 }],
  ["---\ntitle: x\n---\n\n# Behind\n", { heading: "Behind", level: 1 }],
  ["text only", { heading: "", level: 0 }],
  ["", { heading: "", level: 0 }],
])("the heading of %j", (text, want) => {
  expect(headingOf(text)).toEqual(want)
})
