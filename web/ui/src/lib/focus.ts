// An element that is moved within the page loses the keyboard's focus. This gives it back once the page is drawn.

import { tick } from "svelte"

/** To be called right before the page is drawn anew. */
export async function keepFocus(): Promise<void> {
  const focused = document.activeElement
  await tick()
  if (focused instanceof HTMLElement && focused.isConnected && document.activeElement === document.body) focused.focus({ preventScroll: true })
}
