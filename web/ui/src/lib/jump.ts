// Jumps to a section. Sections out of sight are not laid out, and some may not be drawn yet: their heights are
// guesses, and the place of the target moves as they come true. So the target is held where it belongs until it
// stays there by itself, or until the reader scrolls on.

import { inTurn } from "./turns"

const stillFrames = 5
/** What a reader does to go elsewhere. */
export const readerActs = ["wheel", "touchmove", "keydown", "pointerdown"] as const

let holding = new AbortController()

export function jumpToHash(): void {
  const target = document.getElementById(nameIn(window.location.hash))
  jump(() => target, "start")
}

function nameIn(hash: string): string {
  try {
    return decodeURIComponent(hash.slice(1))
  } catch {
    return "" // an address may be anything
  }
}

/** Brings what just changed in a section to the middle of the screen, or else the section. */
export function jumpToWriting(section: Element): void {
  jump(() => section.querySelector(".fresh") ?? section, "center")
}

function jump(find: () => Element | null, block: ScrollLogicalPosition): void {
  holding.abort()
  holding = new AbortController()
  const mine = holding
  const { signal } = mine
  if (!find()) return
  for (const act of readerActs) window.addEventListener(act, () => mine.abort(), { signal, passive: true })

  let drawn = false
  inTurn(() => (drawn = true)) // comes behind all drawing that is waiting now
  let before: number | undefined
  let still = 0
  const hold = () => {
    const target = find()
    if (signal.aborted || !target) return
    target.scrollIntoView({ block })
    const { top } = target.getBoundingClientRect()
    still = drawn && top === before ? still + 1 : 0
    before = top
    if (still < stillFrames) requestAnimationFrame(hold)
    else mine.abort()
  }
  hold()
}
