// One section's text in the replica, as the page writes in it.

import { diffPath, getBackend, getCursor, getCursorPosition, inspectChange, splice, type Cursor, type Patch } from "@automerge/automerge/slim"
import type { DocHandle } from "@automerge/automerge-repo/slim"
import { ChangeSet, Text } from "@codemirror/state"
import { changedSpan } from "../lib/span"
import type { SectionId } from "../lib/wire"
import { knows, readString, type Root } from "./document"
import type { Position, TextReply, TextRequest, Whereabouts } from "./messages"

export class SectionText {
  readonly #path: ["sections", SectionId, "body"]
  #body: string | undefined
  #version = 0
  #pushing = false
  #followed: Whereabouts[] = []

  constructor(
    private readonly handle: DocHandle<Root>,
    section: SectionId,
    private readonly tell: (reply: TextReply) => void,
  ) {
    this.#path = ["sections", section, "body"]
    this.#body = this.#read()
    tell({ type: "begun", text: this.#body })
  }

  take(request: Exclude<TextRequest, { type: "begin" | "end" }>): void {
    if (this.#body === undefined) return
    if (request.type === "push") this.#push(request.version, request.updates)
    else if (request.type === "locate") this.#locate(request)
    else this.#follow(request.whereabouts)
  }

  /** What came into the replica: patches of the whole document. */
  changed(patches: readonly Patch[]): void {
    if (this.#pushing || this.#body === undefined) return
    const [before, now] = [this.#body, this.#read()]
    if (now === before) return
    this.#body = now
    if (now === undefined) return this.tell({ type: "gone" })
    this.#version++
    this.tell({ type: "updated", updates: [{ changes: this.#changes(before, now, patches).toJSON(), pushed: false }] })
    if (this.#followed.length) this.#find()
  }

  #read(): string | undefined {
    return readString(this.handle.doc().sections?.[this.#path[1]]?.body)
  }

  #push(version: number, pushed: unknown[]): void {
    if (version !== this.#version) return this.tell({ type: "stale" })
    const updates = pushed.map((update) => ChangeSet.fromJSON(update))
    this.#pushing = true
    try {
      this.handle.change((root) => {
        const section = root.sections![this.#path[1]]!
        // Single characters can be changed in a text, not in a mere value.
        if (typeof section.body !== "string") section.body = this.#body!
        for (const update of updates) {
          update.iterChanges((fromA, toA, fromB, _toB, inserted) => splice(root, [...this.#path], fromB, toA - fromA, inserted.toString()))
        }
      })
    } finally {
      this.#pushing = false
    }
    this.#body = this.#read()
    this.#version += updates.length
    this.tell({ type: "updated", updates: pushed.map((changes) => ({ changes, pushed: true })) })
  }

  /** From the patches, so that each change stays in its place; by the texts where those do not lead there. */
  #changes(before: string, now: string, patches: readonly Patch[]): ChangeSet {
    let changes = ChangeSet.empty(before.length)
    try {
      for (const patch of patches) {
        const at = patch.path[3]
        if (typeof at !== "number" || !this.#path.every((key, i) => patch.path[i] === key)) continue
        if (patch.action === "splice") changes = changes.compose(ChangeSet.of({ from: at, insert: patch.value }, changes.newLength, "\n"))
        else if (patch.action === "del") changes = changes.compose(ChangeSet.of({ from: at, to: at + (patch.length ?? 1) }, changes.newLength, "\n"))
      }
      if (changes.apply(Text.of(before.split("\n"))).eq(Text.of(now.split("\n")))) return changes
    } catch (error) {
      if (!(error instanceof RangeError)) throw error // the patches are of another text, which took this one's place
    }
    const [from, to] = changedSpan(before, now)
    return ChangeSet.of({ from, to: before.length - (now.length - to), insert: now.slice(from, to) }, before.length, "\n")
  }

  #locate({ version, head, anchor }: { version: number; head: number; anchor: number }): void {
    // A mere value has no places.
    if (version !== this.#version || typeof this.handle.doc().sections?.[this.#path[1]]?.body !== "string") return
    const at = (position: number) => getCursor(this.handle.doc(), [...this.#path], position)
    this.tell({ type: "located", place: { head: at(head), anchor: at(anchor) } })
  }

  #follow(whereabouts: Whereabouts[]): void {
    this.#followed = whereabouts
    this.#find()
  }

  #find(): void {
    this.#followed = this.#followed.map((place) => ("changes" in place ? (this.#placeOf(place) ?? place) : place))
    const positions = this.#followed.flatMap((place): Position[] => {
      if ("changes" in place) return []
      const [head, anchor] = [this.#positionOf(place.head), this.#positionOf(place.anchor)]
      return head === undefined ? [] : [{ agent: place.agent, head, anchor: anchor ?? head }]
    })
    this.tell({ type: "found", positions })
  }

  /** Where the last of somebody's changes in this text ended; undefined where none has come yet, or all are of other sections. */
  #placeOf({ agent, changes }: Extract<Whereabouts, { changes: string[] }>): Whereabouts | undefined {
    const end = changes.map((hash) => this.#endOf(hash)).findLast((found) => found !== undefined)
    return end === undefined ? undefined : { agent, head: end, anchor: end }
  }

  #endOf(hash: string): Cursor | undefined {
    const doc = this.handle.doc()
    const change = knows(doc, [hash]) ? inspectChange(doc, hash) : null
    const last = change && diffPath(doc, [...this.#path], change.deps, [hash]).at(-1)
    const at = last?.path.at(-1)
    if (typeof at !== "number") return undefined
    // Not by a view of the document as it was, which would be all of it.
    return getBackend(doc).getCursor(`/${this.#path.join("/")}`, last?.action === "splice" ? at + last.value.length : at, [hash])
  }

  #positionOf(cursor: Cursor): number | undefined {
    try {
      return getCursorPosition(this.handle.doc(), [...this.#path], cursor)
    } catch {
      return undefined // of another section, of text that has not come yet, or no cursor at all
    }
  }
}
