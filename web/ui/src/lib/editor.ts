// How a section's Markdown is edited: keys, looks, and what is said of it. Loaded after the first text is on the screen.

import { defaultKeymap, historyKeymap, insertNewline } from "@codemirror/commands"
import { markdown, markdownLanguage } from "@codemirror/lang-markdown"
import { HighlightStyle, syntaxHighlighting } from "@codemirror/language"
import type { Extension } from "@codemirror/state"
import { EditorView, keymap } from "@codemirror/view"
import { tags } from "@lezer/highlight"

export interface EditingOptions {
  /** What a screen reader calls the field. */
  label(): string
  /** The writer is done. */
  leave(): void
}

export function editing({ label, leave }: EditingOptions): Extension {
  const done = () => (leave(), true)
  return [
    keymap.of([
      { key: "Escape", run: done },
      { key: "Mod-Enter", run: done },
      // Not the command that indents: a "\r" is white space to it.
      { key: "Enter", run: insertNewline },
      ...defaultKeymap,
      ...historyKeymap,
    ]),
    markdown({ base: markdownLanguage }),
    syntaxHighlighting(marks),
    EditorView.lineWrapping,
    EditorView.contentAttributes.of(() => ({ "aria-label": label(), spellcheck: "true", autocapitalize: "sentences" })),
    EditorView.perLineTextDirection.of(true),
    look,
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
