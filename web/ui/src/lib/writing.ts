// A section's text as this reader writes in it. It goes on while no editor shows it: what others write comes into it all
// the same, and what there is to undo in it stays right.

import { collab, getSyncedVersion, receiveUpdates, sendableUpdates } from "@codemirror/collab"
import { history } from "@codemirror/commands"
import { ChangeSet, EditorState, Text, type Transaction } from "@codemirror/state"
import { EditorView, type ViewUpdate } from "@codemirror/view"
import type { Place, Position, TextReply, TextRequest, Whereabouts } from "../replica/messages"
import { carets, moved, showCarets } from "./carets"
import { editing } from "./editor"
import { lineEnds } from "./lineends"
import type { Replica } from "./replica"
import type { SectionId } from "./wire"

/** Who shows a text to write in. */
export interface Shower {
  /** What a screen reader calls the field. */
  label: string
  /** Where the writer's own caret is now. */
  moved(place: Place): void
  /** The writer is done, or there is nothing to write in any more. */
  leave(): void
}

/** Who made an update: this page, or anybody else. */
const [here, elsewhere] = ["here", "elsewhere"]

/** So many steps can at least be taken back in a text; older ones are forgotten. */
const undoSteps = 200

export class Writing {
  /** Fails where the section has no text any more. */
  readonly begun: Promise<void>
  gone = false
  #begin!: { resolve(): void; reject(reason: Error): void }
  readonly #ask: (request: TextRequest) => void
  #kept: EditorState | undefined
  #view: EditorView | undefined
  #shower: Shower | undefined
  /** What was written is on its way, and what is written meanwhile waits. */
  #pushing = false

  constructor(replica: Pick<Replica, "text">, section: SectionId) {
    this.begun = new Promise((resolve, reject) => (this.#begin = { resolve, reject }))
    this.#ask = replica.text(section, (reply) => this.#take(reply))
    this.#ask({ type: "begin" })
  }

  /** The text with its history, once it has begun. */
  get state(): EditorState {
    return this.#view?.state ?? this.#kept!
  }

  /** Nobody writes in it, and all that was written has been taken. */
  get resting(): boolean {
    return !this.#view && !this.#pushing
  }

  /** Shows the text in an element, to be written in. */
  open(parent: HTMLElement, shower: Shower): void {
    this.#shower = shower
    // The page's policy allows no style element; in a shadow tree CodeMirror adopts its style sheets instead.
    const root = parent.shadowRoot ?? parent.attachShadow({ mode: "open" })
    this.#view = new EditorView({ parent: root, root, state: this.state })
  }

  close(): void {
    this.follow([])
    this.#kept = this.state
    this.#view?.destroy()
    this.#view = this.#shower = undefined
  }

  /** Forgets the text. */
  end(): void {
    this.#ask({ type: "end" })
  }

  /** Takes the keyboard, with the caret at an offset in the text. */
  focus(offset: number): void {
    this.#view!.dispatch({ selection: { anchor: Math.min(offset, this.state.doc.length) }, scrollIntoView: true })
    this.#view!.focus()
  }

  /** Shows where others are. */
  follow(whereabouts: Whereabouts[]): void {
    this.#ask({ type: "follow", whereabouts })
  }

  #take(reply: TextReply): void {
    switch (reply.type) {
      case "begun":
        if (reply.text === undefined) return this.#isGone()
        this.#kept = this.#stateOf(reply.text)
        return this.#begin.resolve()
      case "updated": {
        const updates = reply.updates.map(({ changes, pushed }) => ({ changes: ChangeSet.fromJSON(changes), clientID: pushed ? here : elsewhere }))
        if (reply.updates.some(({ pushed }) => pushed)) this.#pushing = false
        this.#apply(receiveUpdates(this.state, updates))
        return this.#push()
      }
      case "stale":
        this.#pushing = false
        return this.#push()
      case "located":
        return this.#shower?.moved(reply.place)
      case "found": {
        const written = sendableUpdates(this.state)
        const now = (position: Position) => written.reduce<Position>((caret, { changes }) => moved(caret, changes), position)
        if (this.#view) showCarets(this.#view, reply.positions.map(now))
        return
      }
      case "gone":
        return this.#isGone()
    }
  }

  #stateOf(text: string): EditorState {
    return EditorState.create({
      doc: Text.of(text.split("\n")),
      extensions: [
        collab({ clientID: here }),
        lineEnds(text),
        history({ minDepth: undoSteps }),
        editing({ label: () => this.#shower?.label ?? "", leave: () => this.#shower?.leave() }),
        carets,
        // Who is given the focus back goes on where they were, and not where the browser would begin.
        EditorView.domEventHandlers({ focus: (_event, view) => view.focus() }),
        EditorView.updateListener.of((update) => this.#updated(update)),
      ],
    })
  }

  #apply(transaction: Transaction): void {
    if (this.#view) this.#view.dispatch(transaction)
    else this.#kept = transaction.state
  }

  #updated({ docChanged, selectionSet }: ViewUpdate): void {
    if (docChanged) this.#push()
    if (docChanged || selectionSet) this.#locate()
  }

  #push(): void {
    if (this.gone) return
    const written = sendableUpdates(this.state)
    written.forEach(forgetOrigin)
    if (this.#pushing) return
    if (!written.length) return this.#locate()
    this.#pushing = true
    this.#ask({ type: "push", version: getSyncedVersion(this.state), updates: written.map(({ changes }) => changes.toJSON() as unknown) })
  }

  /** Has the writer's caret told to others: where it is in a text that the replica has. */
  #locate(): void {
    if (!this.#view || this.#pushing) return
    const { head, anchor } = this.state.selection.main
    this.#ask({ type: "locate", version: getSyncedVersion(this.state), head, anchor })
  }

  #isGone(): void {
    this.gone = true
    this.#begin.reject(new Error("This section is no longer in the document."))
    this.#shower?.leave()
  }
}

/**
 * The transaction of an update holds the state before it. That holds the parser's state as of the last change, and so the
 * update of that change: by way of their origins the latest would keep all that were ever written.
 */
function forgetOrigin(update: { origin?: Transaction }): void {
  delete update.origin
}

/** So many texts are kept after they were written in; the one written in longest ago is forgotten. */
const keptTexts = 20

/** The texts of one document that were written in. */
export class Writings {
  readonly #all = new Map<SectionId, Writing>()

  constructor(private readonly replica: Pick<Replica, "text">) {}

  of(section: SectionId): Writing {
    const before = this.#all.get(section)
    const writing = before && !before.gone ? before : new Writing(this.replica, section)
    this.#all.delete(section)
    this.#all.set(section, writing)
    for (const [id, kept] of this.#all) {
      if (this.#all.size <= keptTexts) break
      if (kept === writing || !kept.resting) continue
      kept.end()
      this.#all.delete(id)
    }
    return writing
  }
}
