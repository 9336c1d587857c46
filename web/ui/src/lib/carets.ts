// Where others are writing, and what they have selected, drawn into the text that one edits oneself.

import { EditorSelection, StateEffect, StateField, type ChangeDesc, type Extension } from "@codemirror/state"
import { Decoration, EditorView, layer, RectangleMarker, ViewPlugin, WidgetType, type DecorationSet } from "@codemirror/view"
import { hueOf } from "./authors"
import { people } from "./people.svelte"
import type { Agent } from "./wire"

/** A caret, or with an anchor elsewhere a selection; in UTF-16 units, as the editor counts. */
export interface Caret {
  agent: Agent
  head: number
  anchor: number
}

/** More people and agents than so many are not drawn in one text. */
const mostCarets = 50

/** People have a round head and a name in round letters, agents square ones: colour alone tells nobody apart. */
class CaretWidget extends WidgetType {
  constructor(
    private readonly agent: Agent,
    private readonly person: boolean,
  ) {
    super()
  }

  override eq(other: CaretWidget): boolean {
    return other.agent === this.agent && other.person === this.person
  }

  override toDOM(): HTMLElement {
    const caret = document.createElement("span")
    caret.className = `caret ${this.person ? "person" : "agent"}`
    caret.style.setProperty("--hue", String(hueOf(this.agent)))
    caret.setAttribute("aria-hidden", "true")
    const name = document.createElement("span")
    name.className = "name"
    name.textContent = this.agent
    // Zero-width characters keep the line's height and let the text break as if nothing were there.
    caret.append("\u2060", name, "\u2060")
    return caret
  }

  override get lineBreaks(): number {
    return 0
  }

  override ignoreEvent(): boolean {
    return true
  }
}

/** What somebody has selected on one line; beneath the text, which keeps its nodes whole. */
class SelectionMarker extends RectangleMarker {
  constructor(
    piece: RectangleMarker,
    private readonly agent: Agent,
  ) {
    super("selected", piece.left, piece.top, piece.width, piece.height)
  }

  override draw(): HTMLDivElement {
    const element = super.draw()
    element.style.setProperty("--hue", String(hueOf(this.agent)))
    return element
  }

  override update(element: HTMLElement, before: SelectionMarker): boolean {
    return before.agent === this.agent && super.update(element, before)
  }

  override eq(other: SelectionMarker): boolean {
    return other.agent === this.agent && super.eq(other)
  }
}

const replaceCarets = StateEffect.define<readonly Caret[]>()

interface Shown {
  carets: readonly Caret[]
  widgets: DecorationSet
}

const nobody: Shown = { carets: [], widgets: Decoration.none }

function shown(carets: readonly Caret[]): Shown {
  const widgets = carets.map(({ agent, head }) => Decoration.widget({ widget: new CaretWidget(agent, people.has(agent)), side: 1 }).range(head))
  return { carets, widgets: Decoration.set(widgets, true) }
}

/** What is written at the edge of a selection is not part of it, and a caret goes behind what is written at it. */
export function moved({ agent, head, anchor }: Caret, changes: ChangeDesc): Caret {
  if (head === anchor) return { agent, head: changes.mapPos(head, 1), anchor: changes.mapPos(anchor, 1) }
  const side = head < anchor ? 1 : -1
  return { agent, head: changes.mapPos(head, side), anchor: changes.mapPos(anchor, -side) }
}

const caretField = StateField.define<Shown>({
  create: () => nobody,
  update(now, { effects, changes, docChanged, newDoc }) {
    const replaced = effects.findLast((effect) => effect.is(replaceCarets))
    if (replaced) {
      const within = (at: number) => Math.min(at, newDoc.length)
      return shown((replaced.value as readonly Caret[]).slice(0, mostCarets).map(({ agent, head, anchor }) => ({ agent, head: within(head), anchor: within(anchor) })))
    }
    return docChanged && now !== nobody ? shown(now.carets.map((caret) => moved(caret, changes))) : now
  },
  provide: (field) => EditorView.decorations.from(field, ({ widgets }) => widgets),
})

const selections = layer({
  above: false,
  class: "selections",
  update: ({ docChanged, viewportChanged, geometryChanged, state, startState }) =>
    docChanged || viewportChanged || geometryChanged || state.field(caretField) !== startState.field(caretField),
  markers: (view) =>
    view.state.field(caretField).carets.flatMap(({ agent, head, anchor }) =>
      head === anchor ? [] : RectangleMarker.forRange(view, "selected", EditorSelection.range(anchor, head)).map((piece) => new SelectionMarker(piece, agent)),
    ),
})

/** A name that would stick out of the text at either side is moved back into it. */
const namesWithin = ViewPlugin.define(({ contentDOM }) => {
  const measure = {
    key: "names",
    read: () => {
      const text = contentDOM.getBoundingClientRect()
      return [...contentDOM.querySelectorAll<HTMLElement>(".caret .name")].map((name) => {
        // Where it stands by itself: what moves it does not count in this.
        const left = name.parentElement!.getBoundingClientRect().left + name.offsetLeft
        const widest = text.width
        return { name, widest, by: Math.max(text.left - left, Math.min(0, text.right - left - Math.min(name.offsetWidth, widest))) }
      })
    },
    write: (names: { name: HTMLElement; widest: number; by: number }[]) => {
      for (const { name, widest, by } of names) {
        name.style.maxWidth = `${widest}px`
        name.style.translate = `${by}px`
      }
    },
  }
  return {
    update({ docChanged, viewportChanged, geometryChanged, state, startState, view }) {
      if (docChanged || viewportChanged || geometryChanged || state.field(caretField) !== startState.field(caretField)) view.requestMeasure(measure)
    },
  }
})

const author = "light-dark(oklch(0.46 0.13 var(--hue)), oklch(0.8 0.1 var(--hue)))"

const look = EditorView.theme({
  ".selected": { "--author": author, background: "color-mix(in oklab, var(--author) 22%, transparent)", borderRadius: "2px" },
  ".caret": {
    position: "relative",
    "--author": author,
    "border-inline-start": "2px solid var(--author)",
    "margin-inline": "-1px",
  },
  ".caret::before": {
    content: '""',
    position: "absolute",
    insetBlockStart: "-0.3em",
    insetInlineStart: "-0.3em",
    width: "0.45em",
    height: "0.45em",
    background: "var(--author)",
  },
  ".caret.person::before": { borderRadius: "50%" },
  ".caret.agent": { borderInlineStartStyle: "dashed" },
  ".caret .name": {
    position: "absolute",
    insetBlockEnd: "100%",
    insetInlineStart: "-0.3em",
    zIndex: "1",
    padding: "0.1em 0.5em",
    background: "var(--author)",
    color: "var(--sheet)",
    font: "600 0.72rem/1.4 var(--ui)",
    boxSizing: "border-box",
    overflow: "hidden",
    textOverflow: "ellipsis",
    whiteSpace: "nowrap",
    pointerEvents: "none",
    // The name goes, so that it covers no text for long; pointing at the caret brings it back.
    animation: "caret-name 6s forwards",
  },
  ".caret:hover .name": { animation: "none" },
  "@keyframes caret-name": { "80%": { opacity: "1" }, to: { opacity: "0" } },
  ".caret.person .name": { borderRadius: "0.8em 0.8em 0.8em 0" },
  ".caret.agent .name": { borderRadius: "1px" },
})

export const carets: Extension = [caretField, selections, namesWithin, look]

export function showCarets(view: EditorView, shown: readonly Caret[]): void {
  view.dispatch({ effects: replaceCarets.of(shown) })
}
