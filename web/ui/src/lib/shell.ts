import { messageOf } from "./api"

/**
 * Keeps the page in this browser, so that what it keeps of documents can be opened without a network. Asked for when the
 * first replica is there: its code is loaded by then, and who only reads has nothing that could be opened.
 */
export function keepShell(): void {
  if (!import.meta.env.PROD || !("serviceWorker" in navigator)) return // only on HTTPS and on the reader's own machine
  navigator.serviceWorker.register("/sw.js").catch((error: unknown) => console.warn("The page cannot be kept for when there is no network:", messageOf(error)))
}
