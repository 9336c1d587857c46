// @vitest-environment jsdom

import { expect, test } from "vitest"
import { redraw } from "../src/lib/redraw"
import { changedSpan } from "../src/lib/span"
import { random } from "./random"

function fragment(html: string): DocumentFragment {
  const template = document.createElement("template")
  template.innerHTML = html
  return template.content
}

function box(html: string): HTMLDivElement {
  const div = document.createElement("div")
  div.innerHTML = html
  return div
}

/** The elements alone: white space between blocks is not redrawn and not seen. */
const shape = (element: Element) => element.innerHTML.replace(/>\s+</g, "><").trim()

test("what did not change stays the very same element", () => {
  const div = box("<h2>A</h2>\n<p>one</p>\n<p>two</p>\n")
  const [heading, , last] = div.children
  const fresh = redraw(div, fragment("<h2>A</h2>\n<p>one more</p>\n<p>two</p>\n"))
  expect(fresh.map((element) => element.textContent)).toEqual(["one more"])
  expect([div.children[0], div.children[2]]).toEqual([heading, last])
})

test("inside a list only the item that changed is new", () => {
  const div = box("<ul>\n<li>a</li>\n<li>b</li>\n</ul>")
  const list = div.firstElementChild
  expect(redraw(div, fragment("<ul>\n<li>a</li>\n<li>B</li>\n<li>c</li>\n</ul>")).map((element) => element.textContent)).toEqual(["B", "c"])
  expect(div.firstElementChild).toBe(list)
})

test("a redrawn section equals one drawn anew, whatever it was before", () => {
  const seed = Date.now() % 1_000_000
  const pick = random(seed)
  const paragraphs = () => Array.from({ length: pick(5) }, () => `<p>${"ab c".slice(pick(3))}</p>`)
  const items = () => `<ul class="${pick(2)}">${Array.from({ length: 1 + pick(4) }, () => `<li>${pick(4)}</li>`).join("")}</ul>`
  const section = () => [...paragraphs(), ...(pick(2) ? [items()] : []), ...paragraphs(), ...(pick(3) ? [] : [`<ol start="${pick(3)}"><li>x</li></ol>`])].join("\n")
  for (let i = 0; i < 200; i++) {
    const [before, after] = [section(), section()]
    const div = box(before)
    redraw(div, fragment(after))
    expect(shape(div), `seed ${seed}, case ${i}: ${before} -> ${after}`).toBe(shape(box(after)))
  }
})

test.each([
  ["one two", "one big two", [4, 8]],
  ["one two", "one two", [7, 7]],
  ["one", "", [0, 0]],
  ["", "one", [0, 3]],
  ["aaa", "aaaa", [3, 4]],
])("from %j to %j", (before, now, span) => {
  expect(changedSpan(before, now)).toEqual(span)
})
