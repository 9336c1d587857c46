// Where others are writing, drawn into the text that one edits oneself.

import { StateEffect, StateField, type Extension } from "@codemirror/state"
import { Decoration, EditorView, WidgetType, type DecorationSet } from "@codemirror/view"
import { hueOf } from "./authors"
import { people } from "./people.svelte"
import type { Agent } from "./wire"

export interface Caret {
  agent: Agent
  /** In UTF-16 units, as the editor counts. */
  at: number
}

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

const replaceCarets = StateEffect.define<readonly Caret[]>()

const caretField = StateField.define<DecorationSet>({
  create: () => Decoration.none,
  update(carets, transaction) {
    const moved = carets.map(transaction.changes)
    const replaced = transaction.effects.find((effect) => effect.is(replaceCarets))
    if (!replaced) return moved
    const end = transaction.newDoc.length
    return Decoration.set(
      (replaced.value as readonly Caret[]).map(({ agent, at }) => Decoration.widget({ widget: new CaretWidget(agent, people.has(agent)), side: 1 }).range(Math.min(at, end))),
      true,
    )
  },
  provide: (field) => EditorView.decorations.from(field),
})

const look = EditorView.theme({
  ".caret": {
    position: "relative",
    "--author": "light-dark(oklch(0.46 0.13 var(--hue)), oklch(0.8 0.1 var(--hue)))",
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

export const carets: Extension = [caretField, look]

export function showCarets(view: EditorView, shown: readonly Caret[]): void {
  view.dispatch({ effects: replaceCarets.of(shown) })
}
