// The addresses: / is the list of documents, /d/{ref} is one of them, /coordination is who waits for whom, /admin is
// for who runs the server, /playground is where leases are tried.

import type { DocumentRef } from "./wire"

export type Route = { page: "document"; ref: DocumentRef } | { page: "list" | "coordination" | "admin" | "playground" | "nowhere" }

export function routeOf(pathname: string): Route {
  if (pathname === "/") return { page: "list" }
  const named = /^\/(coordination|admin|playground)\/?$/.exec(pathname)
  if (named) return { page: named[1] as "coordination" | "admin" | "playground" }
  const found = /^\/d\/([^/]+)\/?$/.exec(pathname)
  if (!found) return { page: "nowhere" }
  try {
    return { page: "document", ref: decodeURIComponent(found[1]!) as DocumentRef }
  } catch {
    return { page: "nowhere" }
  }
}

export function documentHref(ref: DocumentRef): string {
  return `/d/${encodeURIComponent(ref)}`
}

class Router {
  #pathname = $state(window.location.pathname)
  // A jump to a section changes the address too, but not the route.
  readonly route: Route = $derived(routeOf(this.#pathname))

  constructor() {
    window.addEventListener("popstate", () => (this.#pathname = window.location.pathname))
  }

  go(href: string): void {
    history.pushState(null, "", href)
    this.#pathname = window.location.pathname
    window.scrollTo(0, 0)
  }

  /** Puts the document's present address in the place of a former one. */
  correct(href: string): void {
    if (href === this.#pathname) return
    history.replaceState(null, "", href + window.location.hash)
    this.#pathname = window.location.pathname
  }

  /** The key of a share link, taken out of the address bar so that it is not passed on with it. */
  takeToken(): string | null {
    const url = new URL(window.location.href)
    const token = url.searchParams.get("token")
    if (token === null) return null
    url.searchParams.delete("token")
    history.replaceState(null, "", url)
    return token
  }
}

export const router = new Router()

/** For the click on a link: stays on the page, unless the reader asks for another tab or window. */
export function follow(event: MouseEvent & { currentTarget: HTMLAnchorElement }): void {
  if (event.button !== 0 || event.metaKey || event.ctrlKey || event.shiftKey || event.altKey) return
  event.preventDefault()
  router.go(event.currentTarget.getAttribute("href")!)
}
