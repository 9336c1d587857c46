// Who is a person: those seen at a page like this one, and those of whom the server knows. All others count as programs, and
// are drawn in another shape.

import { SvelteSet } from "svelte/reactivity"
import { api } from "./api"
import type { Agent } from "./wire"

/** Names that are drawn within so many milliseconds are asked about together, so many at most. */
const gatherMs = 50
const mostAsked = 100

class People {
  readonly #known = new SvelteSet<Agent>()
  readonly #asked = new Set<Agent>()
  #wanted: Agent[] = []
  #reader: Agent | undefined

  /** Somebody is seen at a page. */
  add(name: Agent): void {
    this.#known.add(name)
  }

  /** The reader, in whose name the server can be asked from now on. */
  meet(reader: Agent): void {
    this.#reader = reader
    this.add(reader)
  }

  /** Whether it is a person, as far as is known; whoever looks at the answer is told when more is. */
  has(name: Agent): boolean {
    if (this.#known.has(name)) return true
    if (this.#reader && !this.#asked.has(name)) {
      this.#asked.add(name)
      if (this.#wanted.push(name) === 1) setTimeout(() => void this.#ask(), gatherMs)
    }
    return false
  }

  async #ask(): Promise<void> {
    const names = this.#wanted.splice(0, mostAsked)
    if (this.#wanted.length) setTimeout(() => void this.#ask(), gatherMs)
    try {
      for (const name of (await api.people(names)).people) this.add(name)
    } catch {
      for (const name of names) this.#asked.delete(name) // until they are drawn again
    }
  }
}

export const people = new People()
