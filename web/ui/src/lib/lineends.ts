// Line ends in the editor. The replica counts "\r\n" as two characters, and so does the editor, which breaks lines at
// "\n" alone: the positions of both are the same. The "\r" is kept out of sight and out of the caret's way, and new
// lines end as those that are there.

import { EditorSelection, EditorState, RangeSet, RangeSetBuilder, type Extension, type Text, type Transaction, type TransactionSpec } from "@codemirror/state"
import { Decoration, EditorView, ViewPlugin, type DecorationSet, type ViewUpdate } from "@codemirror/view"

export function lineEnds(text: string): Extension {
  const crlf = text.includes("\r\n")
  return [EditorState.lineSeparator.of("\n"), EditorState.transactionFilter.of((transaction) => asBefore(transaction, crlf)), crlf ? [EditorState.transactionFilter.of(outside), hidden] : []]
}

/** Gives what the writer puts in (by keys, paste or drop) the line ends of the text. */
function asBefore(transaction: Transaction, crlf: boolean): Transaction | readonly TransactionSpec[] {
  if (!transaction.docChanged || !transaction.isUserEvent("input")) return transaction
  const changes: { from: number; to?: number; insert?: string }[] = []
  transaction.changes.iterChanges((_fromA, _toA, fromB, toB) => {
    for (const { index, 0: end } of transaction.newDoc.sliceString(fromB, toB, "\n").matchAll(/\r?\n|\r/g)) {
      if (crlf && end === "\n") changes.push({ from: fromB + index, insert: "\r" })
      else if (!crlf && end !== "\n") changes.push({ from: fromB + index, to: fromB + index + end.length, insert: "\n" })
    }
  })
  return changes.length ? [transaction, { changes, sequential: true }] : transaction
}

/** Keeps carets out of line ends of two characters. */
function outside(transaction: Transaction): Transaction | readonly TransactionSpec[] {
  if (!transaction.selection) return transaction
  const { newDoc: doc, newSelection: { ranges, mainIndex } } = transaction
  const out = (at: number) => (endsWithReturn(doc, at) && doc.sliceString(at, at + 1, "\n") === "\n" ? at - 1 : at)
  if (ranges.every(({ anchor, head }) => out(anchor) === anchor && out(head) === head)) return transaction
  const selection = EditorSelection.create(ranges.map(({ anchor, head }) => EditorSelection.range(out(anchor), out(head))), mainIndex)
  return [transaction, { selection, sequential: true }]
}

class Hidden {
  decorations: DecorationSet = Decoration.none
  ends: RangeSet<Decoration> = RangeSet.empty

  constructor(view: EditorView) {
    this.#find(view)
  }

  update(update: ViewUpdate): void {
    if (update.docChanged || update.viewportChanged) this.#find(update.view)
  }

  #find({ state: { doc }, visibleRanges }: EditorView): void {
    const returns = new RangeSetBuilder<Decoration>()
    const ends = new RangeSetBuilder<Decoration>()
    const mark = Decoration.replace({})
    let last = -1
    for (const { from, to } of visibleRanges) {
      for (let line = doc.lineAt(from); ; line = doc.line(line.number + 1)) {
        if (line.from > last && line.to < doc.length && endsWithReturn(doc, line.to)) {
          returns.add(line.to - 1, line.to, mark)
          ends.add(line.to - 1, line.to + 1, mark)
        }
        last = line.from
        if (line.to >= to) break
      }
    }
    this.decorations = returns.finish()
    this.ends = ends.finish()
  }
}

function endsWithReturn(doc: Text, at: number): boolean {
  return at > 0 && doc.sliceString(at - 1, at) === "\r"
}

const hidden = ViewPlugin.fromClass(Hidden, {
  decorations: (plugin) => plugin.decorations,
  provide: (plugin) => EditorView.atomicRanges.of((view) => view.plugin(plugin)?.ends ?? RangeSet.empty),
})
