// @vitest-environment jsdom

import * as Automerge from "@automerge/automerge"
import { Repo, type DocHandle } from "@automerge/automerge-repo"
import { insertNewline, redo, undo, undoDepth } from "@codemirror/commands"
import { EditorState } from "@codemirror/state"
import { EditorView } from "@codemirror/view"
import { afterEach, expect, test } from "vitest"
import { Writing } from "../src/lib/writing"
import type { Agent, SectionId } from "../src/lib/wire"
import type { Root } from "../src/replica/document"
import type { Place, TextReply, TextRequest } from "../src/replica/messages"
import { SectionText } from "../src/replica/sectiontext"
import { random } from "./random"

const section = "part" as SectionId
const path = ["sections", section, "body"] as const

/** A text that is written in, on one replica, and another replica that knows what was typed up to now. */
class Desk {
  readonly handle: DocHandle<Root>
  readonly writing: Writing
  place: Place | undefined
  left = false
  #parent: HTMLElement | undefined
  #other: Automerge.Doc<Root>
  #text: SectionText | undefined
  /** What is on its way between the page and the worker, in order. */
  readonly #requests: TextRequest[] = []
  readonly #replies: TextReply[] = []
  #listener!: (reply: TextReply) => void

  constructor(text: string) {
    this.handle = new Repo().create<Root>({ sections: { [section]: { body: text } } })
    this.handle.on("change", ({ patches }) => this.#text?.changed(patches))
    this.#other = Automerge.clone(this.handle.doc())
    this.writing = new Writing(
      {
        text: (_section, listener) => {
          this.#listener = listener
          return (request) => this.#requests.push(structuredClone(request))
        },
      },
      section,
    )
    this.deliver()
    this.open()
    desks.add(this)
  }

  get view(): EditorView {
    const found = EditorView.findFromDOM(this.#parent!.shadowRoot!.querySelector<HTMLElement>(".cm-editor")!)
    if (!found) throw new Error("the text is not open")
    return found
  }

  get text(): string {
    return this.writing.state.doc.toString()
  }

  get body(): unknown {
    return this.handle.doc().sections?.[section]?.body
  }

  open(): void {
    this.#parent = document.createElement("div")
    this.writing.open(this.#parent, { label: "Text", moved: (place) => (this.place = place), leave: () => (this.left = true) })
    this.deliver()
  }

  close(): void {
    if (!this.#parent) return
    this.#parent = undefined
    this.writing.close()
    this.deliver()
  }

  /** Lets so many messages arrive at the worker and at the page; all of them, if nothing else is said. */
  deliver(requests = Infinity, replies = Infinity): void {
    for (; requests > 0 && this.#requests.length; requests--) {
      const request = this.#requests.shift()!
      if (request.type === "begin") this.#text = new SectionText(this.handle, section, (reply) => this.#replies.push(structuredClone(reply)))
      else if (request.type !== "end") this.#text!.take(request)
    }
    for (; replies > 0 && this.#replies.length; replies--) this.#listener(this.#replies.shift()!)
    if (requests === Infinity && this.#requests.length) this.deliver()
  }

  type(from: number, to: number, insert: string): void {
    this.view.dispatch({ changes: { from, to, insert }, userEvent: insert ? "input.type" : "delete" })
  }

  /** What another writes arrives. */
  remote(at: number, del: number, insert: string): void {
    this.#other = Automerge.merge(this.#other, this.handle.doc())
    this.#other = Automerge.change(this.#other, (root) => Automerge.splice(root, [...path], at, del, insert))
    this.handle.update((doc) => Automerge.merge(doc, this.#other))
  }

  undoAll(): void {
    while (undo(this.view)) this.deliver()
  }

  agree(): void {
    this.deliver()
    expect(this.text).toBe(this.body)
  }
}

const desks = new Set<Desk>()
afterEach(() => {
  for (const desk of desks) desk.close()
  desks.clear()
})

const begun = async (text: string) => {
  const desk = new Desk(text)
  await desk.writing.begun
  return desk
}

// One's own letters are capitals, others' are digits, what was there is small: after undoing all that one did, what
// others wrote and took away is as they left it, and nothing else differs from the beginning.
test("undo takes back one's own changes only, whatever others write and delete, also while the text is closed", () => {
  const seed = Date.now() % 1_000_000
  for (let round = 0; round < 4; round++) {
    const pick = random(seed + round)
    const desk = new Desk("some words\r\nto 👩‍👩‍👧 begin with\r\n\r\nend")
    const removed = new Set<string>()
    let expected = [...desk.text.matchAll(/./gsu)].map(([char], i) => ({ char, key: `a${i}` }))
    let shown = [...expected]
    for (let step = 0; step < 25; step++) {
      // Both count in whole code points; the offsets are in UTF-16 units.
      const from = pick(shown.length + 1)
      const count = pick(Math.min(4, shown.length - from + 1))
      const at = shown.slice(0, from).map(({ char }) => char).join("").length
      const length = shown.slice(from, from + count).map(({ char }) => char).join("").length
      const mine = pick(2) === 0
      const insert = pick(3) ? String.fromCharCode((mine ? 65 : 48) + pick(10)).repeat(1 + pick(3)) : ""
      if (mine) desk.type(at, at + length, insert)
      else {
        const away = pick(3) === 0
        if (away) desk.close()
        for (const { key } of shown.slice(from, from + count)) removed.add(key)
        desk.remote(at, length, insert)
        desk.deliver()
        if (away) desk.open()
      }
      shown.splice(from, count, ...[...insert].map((char, i) => ({ char, key: `${mine ? "mine" : "other"} ${step} ${i}` })))
      const there = (key: string) => !key.startsWith("mine")
      expected.push(...shown.filter(({ key }) => there(key) && !expected.some((known) => known.key === key)))
      desk.agree()
      expect(desk.text, `seed ${seed + round}`).toBe(shown.map(({ char }) => char).join(""))
    }
    desk.undoAll()
    desk.agree()
    const kept = expected.filter(({ key }) => !removed.has(key)).map(({ char }) => char)
    expect([...desk.text].sort(), `seed ${seed + round}`).toEqual(kept.sort())
  }
})

test("the editor and the replica agree, however late each hears of the other, and nothing written is lost", () => {
  const seed = Date.now() % 1_000_000
  for (let round = 0; round < 20; round++) {
    const pick = random(seed + round)
    const desk = new Desk("")
    const written = new Map<string, number>()
    for (let step = 0; step < 40; step++) {
      const mine = pick(2) === 0
      const text = mine ? desk.text : String(desk.body)
      const at = pick(text.length + 1)
      const insert = String.fromCharCode((mine ? 65 : 97) + pick(26)).repeat(1 + pick(3))
      written.set(insert[0]!, (written.get(insert[0]!) ?? 0) + insert.length)
      if (mine) desk.type(at, at, insert)
      else desk.remote(at, 0, insert)
      desk.deliver(pick(3), pick(3))
    }
    desk.agree()
    const there = new Map<string, number>()
    for (const char of desk.text) there.set(char, (there.get(char) ?? 0) + 1)
    expect([...there].sort(), `seed ${seed + round}`).toEqual([...written].sort())
    desk.undoAll()
    desk.agree()
    expect(desk.text, `seed ${seed + round}`).not.toMatch(/[A-Z]/)
    expect(desk.text.length, `seed ${seed + round}`).toBe([...written].reduce((sum, [char, count]) => (char >= "a" ? sum + count : sum), 0))
  }
})

test("what others write is not undone, and one's own text comes back by redo", async () => {
  const desk = await begun("")
  desk.remote(0, 0, "theirs")
  desk.deliver()
  expect(undoDepth(desk.view.state)).toBe(0)
  desk.type(6, 6, " and mine")
  desk.deliver()
  desk.remote(0, 6, "THEIRS")
  desk.deliver()
  expect(undo(desk.view)).toBe(true)
  expect(desk.text).toBe("THEIRS")
  expect(redo(desk.view)).toBe(true)
  expect(desk.text).toBe("THEIRS and mine")
  desk.agree()
})

test("what was written is undone after the text was closed, written in by others and opened again", async () => {
  const desk = await begun("begin")
  desk.type(5, 5, ", mine")
  desk.close()
  desk.remote(0, 0, "They ")
  desk.remote(16, 0, " and theirs")
  desk.deliver()
  desk.open()
  expect(desk.text).toBe("They begin, mine and theirs")
  desk.undoAll()
  expect(desk.text).toBe("They begin and theirs")
  desk.agree()
  expect(redo(desk.view)).toBe(true)
  expect(desk.text).toBe("They begin, mine and theirs")
  desk.agree()
})

test("what was undone in several steps comes back in as many", async () => {
  const desk = await begun("")
  desk.type(0, 0, "A")
  desk.type(1, 1, "nn's goal.")
  desk.deliver()
  desk.remote(3, 2, " and the agent's")
  desk.deliver()
  desk.undoAll()
  expect(desk.text).toBe(" and the agent's")
  desk.agree()
  while (redo(desk.view)) desk.deliver()
  expect(desk.text).toBe("Ann and the agent's goal.")
  desk.agree()
})

test("a caret is told as a place that stays with its text, and places are found where their text is now", async () => {
  const desk = await begun("one two three")
  desk.view.dispatch({ selection: { anchor: 4, head: 7 } })
  desk.deliver()
  const place = desk.place!
  desk.remote(0, 0, "zero ")
  desk.writing.follow([{ agent: "ann" as Agent, head: place.head, anchor: place.head }, { agent: "bob" as Agent, head: "1@ff", anchor: "1@ff" }])
  desk.type(0, 0, "I: ") // the worker does not know it when it finds the places
  desk.deliver()
  const carets = () => [...desk.view.contentDOM.querySelectorAll(".caret")].map((caret) => caret.textContent.replaceAll("\u2060", ""))
  expect(carets()).toEqual(["ann"])
  expect(desk.text.slice(0, desk.view.posAtDOM(desk.view.contentDOM.querySelector(".caret")!))).toBe("zero I: one two")
})

test("a text that is a mere value can be written in, and one that is replaced or taken away is followed", async () => {
  const desk = await begun("")
  desk.handle.change((root) => (root.sections![section]!.body = new Automerge.ImmutableString("a value")))
  desk.deliver()
  expect(desk.text).toBe("a value")
  desk.type(7, 7, "!")
  desk.agree()
  expect(desk.body).toBe("a value!")
  desk.handle.change((root) => (root.sections![section]!.body = "another value"))
  desk.agree()
  expect(desk.text).toBe("another value")
  desk.handle.change((root) => delete root.sections![section])
  desk.deliver()
  expect([desk.left, desk.writing.gone]).toEqual([true, true])
  await expect(new Writing({ text: (_id, listener) => () => listener({ type: "begun", text: undefined }) }, section).begun).rejects.toThrow("no longer in the document")
})

test("a text holds none of the states that it was in before the last change", async () => {
  const desk = await begun("some words")
  for (let i = 0; i < 30; i++) {
    desk.type(0, i % 2, i % 2 ? "" : "x")
    if (i % 3) desk.deliver() // now and then one is written before the last has been taken
  }
  desk.deliver()
  expect(statesHeldBy(desk.writing.state)).toBeLessThanOrEqual(2) // itself, and the one that its parser has seen
  desk.remote(4, 0, "!")
  desk.deliver()
  expect(statesHeldBy(desk.writing.state)).toBeLessThanOrEqual(2)
})

/** How many states of a text can be reached from one, itself among them. */
function statesHeldBy(state: EditorState): number {
  const reached = new Set<object>([state])
  for (const object of reached) {
    for (const key of Reflect.ownKeys(object)) {
      const { value } = Reflect.getOwnPropertyDescriptor(object, key)!
      if (typeof value === "object" && value !== null && !(value instanceof Node)) reached.add(value)
    }
  }
  return [...reached].filter((object) => object instanceof EditorState).length
}

test("new lines end as those that are there", async () => {
  const desk = await begun("one\r\ntwo\r\n")
  desk.type(3, 3, "\n")
  desk.type(desk.text.length, desk.text.length, "three\nfour\r\n")
  expect(desk.text).toBe("one\r\n\r\ntwo\r\nthree\r\nfour\r\n")
  desk.view.dispatch({ selection: { anchor: 6 } }) // within a line end: before it
  insertNewline(desk.view)
  expect(desk.text).toBe("one\r\n\r\n\r\ntwo\r\nthree\r\nfour\r\n")
  desk.agree()
  const plain = await begun("one\ntwo")
  plain.type(7, 7, "\r\nthree\rfour")
  expect(plain.text).toBe("one\ntwo\nthree\nfour")
  plain.agree()
})

test("others' line ends stay as they are, and positions with them", async () => {
  const desk = await begun("one\ntwo")
  desk.remote(3, 0, "\r\nmore")
  desk.deliver()
  desk.type(desk.text.length, desk.text.length, "!")
  expect(desk.text).toBe("one\r\nmore\ntwo!")
  desk.agree()
})
