// Trust over time, as the ledger tells of it: with each release and each lease that ran out.

import { bareName } from "../playground/summary"
import type { LedgerEntry } from "./wire"

/** What everybody begins with. */
export const startTrust = 50

/** The trust of each agent after each of these, in the order of the ledger. */
export function trustOf(entries: LedgerEntry[]): Map<string, number[]> {
  const agents = new Map<string, number[]>()
  for (const { holder, trust } of entries) {
    if (holder === undefined || trust === undefined) continue
    const agent = bareName(holder)
    const points = agents.get(agent) ?? []
    agents.set(agent, points)
    points.push(trust)
  }
  return agents
}

/** A picture of trust has room for at least this much on both sides of where everybody begins. */
const leastSpread = 6

/**
 * A line of steps through the points, each as wide as the others, in a box of this width and height. All that it is
 * seen beside fits in: so far up and down as any of them is from where everybody begins.
 */
export function stepsOf(points: number[], width: number, height: number, beside = points): string {
  const spread = Math.max(leastSpread, ...beside.map((trust) => Math.abs(trust - startTrust)))
  const step = width / points.length
  const y = (trust: number) => rounded((height / 2) * (1 - (trust - startTrust) / spread))
  return points.map((trust, i) => `${i === 0 ? `M0 ${y(trust)}` : `V${y(trust)}`}H${rounded(step * (i + 1))}`).join("")
}

function rounded(n: number): number {
  return Math.round(n * 10) / 10
}
