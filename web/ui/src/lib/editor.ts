// A section's text in CodeMirror, bound to the replica. Loaded with the replica, after the first text is on the screen.

import { diffPath, getBackend, getCursor, getCursorPosition, hasHeads, inspectChange, type Cursor } from "@automerge/automerge/slim"
import type { DocHandle } from "@automerge/automerge-repo/slim"
import { automergeSyncPlugin } from "@automerge/automerge-codemirror"
import { isReconcileTx } from "@automerge/automerge-codemirror/dist/plugin.js"
import { defaultKeymap, history, historyKeymap, insertNewline } from "@codemirror/commands"
import { markdown, markdownLanguage } from "@codemirror/lang-markdown"
import { HighlightStyle, syntaxHighlighting } from "@codemirror/language"
import { EditorState, Text, Transaction, type Extension } from "@codemirror/state"
import { EditorView, keymap } from "@codemirror/view"
import { tags } from "@lezer/highlight"
import { carets, showCarets, type Caret } from "./carets"
import { lineEnds } from "./lineends"
import type { ReplicaHandle, Root } from "./replica"
import type { Agent, SectionId } from "./wire"

/** A place that stays with the text around it, whatever others write; as presences carry it. */
export interface Place {
  agent: Agent
  cursor: Cursor
}

export interface EditorOptions {
  handle: ReplicaHandle
  section: SectionId
  /** What a screen reader calls the field. */
  label: string
  /** Where the writer's own caret is now. */
  moved(cursor: Cursor): void
  /** The writer is done. */
  leave(): void
}

/** Opens a section's text in an element. Throws where the section has no text any more. */
export class Editor {
  readonly #view: EditorView
  readonly #handle: ReplicaHandle
  readonly #path: ["sections", SectionId, "body"]

  constructor(parent: HTMLElement, { handle, section, label, moved, leave }: EditorOptions) {
    this.#handle = handle
    this.#path = ["sections", section, "body"]
    const text = this.#text()
    if (text === undefined) throw new Error("This section is no longer in the document.")
    // The page's policy allows no style element; in a shadow tree CodeMirror adopts its style sheets instead.
    const root = parent.shadowRoot ?? parent.attachShadow({ mode: "open" })
    this.#view = new EditorView({
      parent: root,
      root,
      state: EditorState.create({
        doc: Text.of(text.split("\n")),
        extensions: [
          bound(handle, this.#path),
          lineEnds(text),
          history(),
          keymap.of([
            { key: "Escape", run: () => (leave(), true) },
            { key: "Mod-Enter", run: () => (leave(), true) },
            // Not the command that indents: a "\r" is white space to it.
            { key: "Enter", run: insertNewline },
            ...defaultKeymap,
            ...historyKeymap,
          ]),
          markdown({ base: markdownLanguage }),
          syntaxHighlighting(marks),
          carets,
          EditorView.lineWrapping,
          EditorView.contentAttributes.of({ "aria-label": label, spellcheck: "true", autocapitalize: "sentences" }),
          EditorView.perLineTextDirection.of(true),
          EditorView.updateListener.of((update) => {
            if (update.selectionSet || update.docChanged) moved(this.#cursorAt(update.state.selection.main.head))
          }),
          look,
        ],
      }),
      dispatchTransactions: (transactions, view) => {
        if (!transactions.some((transaction) => transaction.docChanged && !isReconcileTx(transaction)) || this.#writable()) view.update(transactions)
        else leave()
      },
    })
  }

  /** Takes the keyboard, with the caret at an offset in the text. */
  focus(offset: number): void {
    this.#view.dispatch({ selection: { anchor: Math.min(offset, this.#view.state.doc.length) }, scrollIntoView: true })
    this.#view.focus()
  }

  show(places: readonly Place[]): void {
    const shown: Caret[] = places.flatMap(({ agent, cursor }) => {
      const at = this.#positionOf(cursor)
      return at === undefined ? [] : [{ agent, at }]
    })
    showCarets(this.#view, shown)
  }

  /** Where a change ended in this text, by the hash of the change; undefined where it has not come yet, or is of another section. */
  endOf(hash: string): Cursor | undefined {
    const doc = this.#handle.doc()
    const change = hasHeads(doc, [hash]) ? inspectChange(doc, hash) : null
    const last = change && diffPath(doc, [...this.#path], change.deps, [hash]).at(-1)
    const at = last?.path.at(-1)
    if (typeof at !== "number") return undefined
    // Not by a view of the document as it was, which would be all of it.
    return getBackend(doc).getCursor(`/${this.#path.join("/")}`, last?.action === "splice" ? at + last.value.length : at, [hash])
  }

  close(): void {
    this.#view.destroy()
  }

  #text(): string | undefined {
    const body: unknown = (this.#handle.doc() as Partial<Root>).sections?.[this.#path[1]]?.body
    return typeof body === "string" ? body : typeof body === "object" && body !== null && "val" in body ? String(body.val) : undefined
  }

  /** Makes what is edited a text in which single characters can be changed, if it is a mere value. */
  #writable(): boolean {
    const text = this.#text()
    if (text === undefined) return false
    const [, id] = this.#path
    if (typeof this.#handle.doc().sections[id]!.body !== "string") this.#handle.change((root) => (root.sections[id]!.body = text))
    return true
  }

  #cursorAt(offset: number): Cursor {
    return getCursor(this.#handle.doc(), [...this.#path], offset)
  }

  #positionOf(cursor: Cursor): number | undefined {
    try {
      return getCursorPosition(this.#handle.doc(), [...this.#path], cursor)
    } catch {
      return undefined // of another section, of text that has not come yet, or no cursor at all
    }
  }
}

/** What the replica gets from elsewhere is no part of the writer's own history, so that undo takes back the writer's own changes only. */
export function bound<T>(handle: DocHandle<T>, path: (string | number)[]): Extension {
  return [
    // The plugin and this page keep one document; its declared one has no content type.
    automergeSyncPlugin({ handle: handle as unknown as Parameters<typeof automergeSyncPlugin>[0]["handle"], path }),
    EditorState.transactionExtender.of((transaction) => (isReconcileTx(transaction) ? { annotations: [Transaction.addToHistory.of(false), Transaction.remote.of(true)] } : null)),
  ]
}

const marks = HighlightStyle.define([
  { tag: tags.heading1, fontSize: "1.45em", fontWeight: "700" },
  { tag: tags.heading2, fontSize: "1.25em", fontWeight: "680" },
  { tag: [tags.heading3, tags.heading4, tags.heading5, tags.heading6], fontWeight: "650" },
  { tag: tags.strong, fontWeight: "700" },
  { tag: tags.emphasis, fontStyle: "italic" },
  { tag: tags.strikethrough, textDecoration: "line-through" },
  { tag: [tags.link, tags.url], color: "var(--accent)" },
  { tag: tags.quote, color: "var(--ink-soft)" },
  { tag: tags.monospace, fontFamily: "var(--code)", fontSize: "0.92em" },
  { tag: [tags.processingInstruction, tags.contentSeparator, tags.meta], color: "var(--ink-soft)" },
])

const look = EditorView.theme({
  "&": { color: "var(--ink)", fontSize: "1.05rem" },
  "&.cm-focused": { outline: "none" },
  ".cm-scroller": { fontFamily: "var(--text)", lineHeight: "1.65", overflow: "visible" },
  ".cm-content": { padding: "0.25rem 0", caretColor: "var(--accent)" },
  ".cm-line": { padding: "0" },
})
