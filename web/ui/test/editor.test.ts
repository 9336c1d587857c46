// @vitest-environment jsdom

import * as Automerge from "@automerge/automerge"
import { Repo, type DocHandle } from "@automerge/automerge-repo"
import { history, insertNewline, redo, undo, undoDepth } from "@codemirror/commands"
import { EditorState, Text } from "@codemirror/state"
import { EditorView } from "@codemirror/view"
import { afterEach, expect, test } from "vitest"
import { bound } from "../src/lib/editor"
import { lineEnds } from "../src/lib/lineends"
import { random } from "./random"

interface Root {
  body: string
}

const path = ["body"]

/** An editor on one replica, and another replica that knows what it has typed up to now. */
class Desk {
  readonly handle: DocHandle<Root>
  readonly view: EditorView
  #other: Automerge.Doc<Root>

  constructor(text: string) {
    this.handle = new Repo().create<Root>({ body: text })
    this.#other = Automerge.clone(this.handle.doc())
    this.view = new EditorView({
      state: EditorState.create({ doc: Text.of(text.split("\n")), extensions: [bound(this.handle, path), lineEnds(text), history({ newGroupDelay: 0 })] }),
    })
    open.add(this.view)
  }

  get text(): string {
    return this.view.state.doc.toString()
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

  agree(): void {
    expect(this.text).toBe(this.handle.doc().body)
  }
}

const open = new Set<EditorView>()
afterEach(() => {
  for (const view of open) view.destroy()
  open.clear()
})

// One's own letters are capitals, others' are digits, what was there is small: after undoing all that one did, what
// others wrote and took away is as they left it, and nothing else differs from the beginning.
test("undo takes back one's own changes only, whatever others write and delete in between and around", () => {
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
        for (const { key } of shown.slice(from, from + count)) removed.add(key)
        desk.remote(at, length, insert)
      }
      shown.splice(from, count, ...[...insert].map((char, i) => ({ char, key: `${mine ? "mine" : "other"} ${step} ${i}` })))
      const there = (key: string) => !key.startsWith("mine")
      expected.push(...shown.filter(({ key }) => there(key) && !expected.some((known) => known.key === key)))
      desk.agree()
      expect(desk.text, `seed ${seed + round}`).toBe(shown.map(({ char }) => char).join(""))
    }
    while (undo(desk.view));
    desk.agree()
    const kept = expected.filter(({ key }) => !removed.has(key)).map(({ char }) => char)
    expect([...desk.text].sort(), `seed ${seed + round}`).toEqual(kept.sort())
  }
})

test("what others write is not undone, and one's own text comes back by redo", () => {
  const desk = new Desk("")
  desk.remote(0, 0, "theirs")
  expect(undoDepth(desk.view.state)).toBe(0)
  desk.type(6, 6, " and mine")
  desk.remote(0, 6, "THEIRS")
  expect(undo(desk.view)).toBe(true)
  expect(desk.text).toBe("THEIRS")
  expect(redo(desk.view)).toBe(true)
  expect(desk.text).toBe("THEIRS and mine")
  desk.agree()
})

test("what was undone in several steps comes back in as many", () => {
  const desk = new Desk("")
  desk.type(0, 0, "A")
  desk.type(1, 1, "nn's goal.")
  desk.remote(3, 2, " and the agent's")
  while (undo(desk.view));
  expect(desk.text).toBe(" and the agent's")
  desk.agree()
  while (redo(desk.view));
  expect(desk.text).toBe("Ann and the agent's goal.")
  desk.agree()
})

test("new lines end as those that are there", () => {
  const desk = new Desk("one\r\ntwo\r\n")
  desk.type(3, 3, "\n")
  desk.type(desk.text.length, desk.text.length, "three\nfour\r\n")
  expect(desk.text).toBe("one\r\n\r\ntwo\r\nthree\r\nfour\r\n")
  desk.view.dispatch({ selection: { anchor: 6 } }) // within a line end: before it
  insertNewline(desk.view)
  expect(desk.text).toBe("one\r\n\r\n\r\ntwo\r\nthree\r\nfour\r\n")
  desk.agree()
  const plain = new Desk("one\ntwo")
  plain.type(7, 7, "\r\nthree\rfour")
  expect(plain.text).toBe("one\ntwo\nthree\nfour")
  plain.agree()
})

test("others' line ends stay as they are, and positions with them", () => {
  const desk = new Desk("one\ntwo")
  desk.remote(3, 0, "\r\nmore")
  desk.type(desk.text.length, desk.text.length, "!")
  expect(desk.text).toBe("one\r\nmore\ntwo!")
  desk.agree()
})
