// The keyboard's focus, for who has no mouse. An element that is moved within the page loses it, and so does one that is
// taken out, hidden or disabled: the browser then begins again at the top of the page. Here it stays where it was, or
// goes to what stands there now.

import { tick } from "svelte"

/** To be called right before the page is drawn anew: gives the focus back to what is only moved. */
export async function keepFocus(): Promise<void> {
  const focused = focusedElement()
  await tick()
  if (focused instanceof HTMLElement && focused.isConnected && document.activeElement === document.body) focused.focus({ preventScroll: true })
}

/** What has the focus, also within a shadow tree, whose host cannot be given it. */
function focusedElement(): Element | null {
  let focused = document.activeElement
  while (focused?.shadowRoot?.activeElement) focused = focused.shadowRoot.activeElement
  return focused
}

/** Where an element stood: its parent, and its place among the parent's children. */
interface Place {
  parent: Element
  index: number
}

const focusables = "a[href], button, input, select, textarea, summary, [tabindex]"

/** Keeps the focus in the page for as long as it is open. */
export function guardFocus(): void {
  let last: HTMLElement | undefined
  /** Of the last element with the focus, and of what it stood in, from the inside to the outside. */
  let places: Place[] = []
  /** On its way to another element the focus is nowhere. Where no script moves it, as Escape does, the observer runs meanwhile. */
  let moving = false

  document.addEventListener("focusin", ({ target }) => {
    moving = false
    last = focusedElement() as HTMLElement
    places = placesOf(target as HTMLElement)
  })
  document.addEventListener("focusout", ({ relatedTarget }) => {
    moving = relatedTarget !== null
    queueMicrotask(() => {
      // Whoever clicks beside everything wants the focus nowhere.
      if (last && canTake(last) && nowhere()) last = undefined
    })
  })
  const regain = () => {
    if (moving || !last || !nowhere()) return
    if (canTake(last)) return last.focus({ preventScroll: true })
    if (isShown(last)) return // only disabled: it comes back, or something in its place
    const heir = heirOf(places)
    heir?.focus({ preventScroll: true })
  }
  new MutationObserver(regain).observe(document.body, { subtree: true, childList: true, attributeFilter: ["disabled", "hidden", "open"] })
}

/** Whether nothing has the focus, or something that will lose it when the page is drawn. Asked at each change of the page: it computes no styles. */
function nowhere(): boolean {
  const { activeElement: active } = document
  return active === null || active === document.body || active.matches(":disabled") || active.closest("[hidden], dialog:not([open])") !== null
}

function placesOf(element: Element): Place[] {
  const places: Place[] = []
  for (let child = element; child.parentElement && child !== document.body; child = child.parentElement) {
    places.push({ parent: child.parentElement, index: [...child.parentElement.children].indexOf(child) })
  }
  return places
}

/** What stands now where the focus was: the first behind it in the innermost that is still there, or else before it. */
function heirOf(places: readonly Place[]): HTMLElement | undefined {
  for (const { parent, index } of places) {
    if (!isShown(parent)) continue
    // Another page: it is begun at its heading, as soon as it has one.
    if (parent.querySelector("main") || parent.id === "app") return headingOf()
    const children = [...parent.children]
    for (const child of [...children.slice(index), ...children.slice(0, index).reverse()]) {
      const found = [child, ...child.querySelectorAll(focusables)].find((element) => element.matches(focusables) && canTake(element))
      if (found) return found as HTMLElement
    }
  }
  return undefined
}

function headingOf(): HTMLElement | undefined {
  const heading = document.querySelector("h1")
  if (heading && !heading.hasAttribute("tabindex")) heading.tabIndex = -1
  return heading ?? undefined
}

function isShown(element: Element): boolean {
  return element.isConnected && element.checkVisibility()
}

function canTake(element: Element): boolean {
  return isShown(element) && !element.matches(":disabled")
}
