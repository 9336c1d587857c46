// Where the wait-for graph is drawn. Who waits for nobody is at the top, and everybody below those they wait for;
// parts that have nothing to do with each other are drawn apart, so that they may wrap on a narrow screen.

import type { Wait } from "./engine"

export const nodeSize = { width: 128, height: 34 }
const gap = { x: 28, y: 44 }
const bulge = 46 // how far an edge that cannot be straight swings out
const labelChars = 26
const charWidth = 7
const margin = 8

export interface GraphNode {
  agent: string
  x: number
  y: number
}

export interface GraphEdge<W extends Wait> {
  wait: W
  path: string
  label: string
  x: number
  y: number
}

export interface Part<W extends Wait> {
  nodes: GraphNode[]
  edges: GraphEdge<W>[]
  /** Of the picture: its left and top edge, width and height. */
  box: [number, number, number, number]
}

export function shortened(text: string, most: number): string {
  return text.length <= most ? text : `${text.slice(0, most - 1)}…`
}

export function layout<W extends Wait>(waits: W[]): Part<W>[] {
  return parts(waits).map((part) => place(part))
}

/** The edges of each connected part, in the order in which the parts first come up. */
function parts<W extends Wait>(waits: W[]): W[][] {
  const partOf = new Map<string, Set<string>>()
  for (const { from, to } of waits) {
    const joined = new Set([from, to, ...(partOf.get(from) ?? []), ...(partOf.get(to) ?? [])])
    for (const agent of joined) partOf.set(agent, joined)
  }
  return [...new Set(partOf.values())].map((part) => waits.filter((wait) => part.has(wait.from)))
}

/** How far below the top everybody stands. A wait that was refused counts for nothing: with it there is a circle. */
function layers(waits: Wait[]): Map<string, number> {
  const layer = new Map<string, number>()
  const below = (agent: string): number => {
    const known = layer.get(agent)
    if (known !== undefined) return known
    layer.set(agent, 0)
    const ahead = waits.filter((wait) => wait.from === agent && !wait.refused).map((wait) => below(wait.to) + 1)
    layer.set(agent, Math.max(0, ...ahead))
    return layer.get(agent)!
  }
  for (const { from, to } of waits) {
    below(to)
    below(from)
  }
  return layer
}

function place<W extends Wait>(waits: W[]): Part<W> {
  const layer = layers(waits)
  const rows: string[][] = []
  for (const [agent, depth] of layer) (rows[depth] ??= []).push(agent)
  const nodes = rows.flatMap((row, depth) =>
    row.map((agent, i) => ({ agent, x: (i - (row.length - 1) / 2) * (nodeSize.width + gap.x), y: depth * (nodeSize.height + gap.y) })),
  )
  const at = new Map(nodes.map((node) => [node.agent, node]))
  const edges = waits.map((wait) => edge(wait, at.get(wait.from)!, at.get(wait.to)!))
  const left = Math.min(...nodes.map((node) => node.x - nodeSize.width / 2), ...edges.map((e) => e.x - (e.label.length * charWidth) / 2))
  const right = Math.max(...nodes.map((node) => node.x + nodeSize.width / 2), ...edges.map((e) => e.x + (e.label.length * charWidth) / 2))
  const bottom = Math.max(...nodes.map((node) => node.y)) + nodeSize.height / 2
  const top = -nodeSize.height / 2
  return { nodes, edges, box: [left - margin, top - margin, right - left + 2 * margin, bottom - top + 2 * margin] }
}

function edge<W extends Wait>(wait: W, from: GraphNode, to: GraphNode): GraphEdge<W> {
  const label = shortened(wait.over, labelChars)
  const steps = (from.y - to.y) / (nodeSize.height + gap.y)
  if (steps === 1 && !wait.refused) {
    const start = { x: from.x, y: from.y - nodeSize.height / 2 }
    const end = { x: to.x, y: to.y + nodeSize.height / 2 }
    return { wait, label, path: `M${start.x} ${start.y}L${end.x} ${end.y}`, x: (start.x + end.x) / 2, y: (start.y + end.y) / 2 }
  }
  // Round the right side: past whatever stands between, and never over the edge that goes the other way. The label
  // is outside, where no straight edge's label reaches.
  const side = nodeSize.width / 2
  const out = Math.max(from.x, to.x) + side + bulge
  const half = (from.x + side + 6 * out + to.x + side) / 8 // where the curve is at its half
  return {
    wait,
    label,
    path: `M${from.x + side} ${from.y}C${out} ${from.y} ${out} ${to.y} ${to.x + side} ${to.y}`,
    x: half + 8 + (label.length * charWidth) / 2,
    y: (from.y + to.y) / 2,
  }
}

/** The graph in words. */
export function inWords(waits: Wait[]): string {
  if (waits.length === 0) return "Nobody waits for anybody."
  return waits.map((wait) => `${wait.from} ${wait.refused ? "would wait" : "waits"} for ${wait.to} over ${wait.over}${wait.refused ? ", which was refused" : ""}.`).join(" ")
}
