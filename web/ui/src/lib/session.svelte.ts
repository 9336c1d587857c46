// Who is signed in. The key itself lives in a cookie that no script can read.

import { tick } from "svelte"
import { ApiError, api, messageOf } from "./api"
import { forgetHeld } from "./held"
import { router } from "./router.svelte"
import { forget, notedSession, noteSession, unsavedTitles } from "./local"
import type { Agent, DocumentRef, Session } from "./wire"

type State = { phase: "asking" } | { phase: "out"; why: string } | { phase: "in"; session: Session }

/** What the tabs of a browser, which share one cookie, tell each other. */
type Told = { signedIn: Agent } | { signedOut: Agent }

class SessionStore {
  #state = $state.raw<State>({ phase: "asking" })
  readonly #tabs = new BroadcastChannel("cowrite:session")

  constructor() {
    this.#tabs.addEventListener("message", ({ data }: MessageEvent<Told>) => void this.#hear(data))
  }

  get state(): State {
    return this.#state
  }

  /** Whose page this is, while somebody is signed in. */
  get agent(): Agent | undefined {
    return this.#state.phase === "in" ? this.#state.session.agent : undefined
  }

  /** Signs in with the key of a share link, where it is needed, or else finds out who is signed in already. */
  async begin(token: string | null): Promise<void> {
    try {
      this.#enter(token ? await byLink(token) : await api.session())
    } catch (error) {
      // Without the server, what this browser keeps can be opened by whom it keeps it for.
      const noted = error instanceof ApiError && error.status === 0 && !token ? notedSession() : undefined
      if (noted) return this.#enter(noted)
      const plainlyOut = error instanceof ApiError && error.signedOut
      const why = plainlyOut ? (token ? "This link is no longer valid. Ask for a new one, or sign in with a key." : "") : messageOf(error)
      if (plainlyOut) this.#leave(why)
      else this.#state = { phase: "out", why }
    }
  }

  /** Throws ApiError when the key is refused. */
  async signIn(key: string): Promise<void> {
    this.#enter(await api.signIn(key))
  }

  /** Takes along what this browser keeps for who is signed in; asks first if the server does not have all of it. */
  async signOut(): Promise<void> {
    if (this.state.phase !== "in") return
    const { agent } = this.state.session
    const unsaved = unsavedTitles(agent)
    const titles = new Intl.ListFormat(undefined, { type: "conjunction" }).format(unsaved)
    if (unsaved.length && !confirm(`What you wrote in ${titles} is not on the server yet, and is lost if you sign out now. Sign out all the same?`)) return
    await api.signOut()
    this.#tabs.postMessage({ signedOut: agent } satisfies Told)
    this.#leave("You are signed out.")
    await this.#forget(agent)
  }

  /** The server no longer knows the session. */
  expire(): void {
    if (this.state.phase === "in") this.#leave("Your key is no longer valid: it ended, or it was revoked.")
  }

  /** No tab may go on in the name of who is signed in no more, nor write anything back to what was forgotten. */
  async #hear(told: Told): Promise<void> {
    const { agent } = this
    if (!agent) return
    if ("signedOut" in told) {
      if (told.signedOut !== agent) return
      this.#state = { phase: "out", why: "You signed out in another tab of this browser." }
      await this.#forget(agent)
    } else if (told.signedIn !== agent) {
      this.#state = { phase: "out", why: `In another tab of this browser ${told.signedIn} has signed in. Load this page again to go on as ${told.signedIn}.` }
    }
  }

  async #forget(agent: Agent): Promise<void> {
    await tick() // closes what was open
    forgetHeld(agent)
    await forget(agent)
  }

  #enter(session: Session): void {
    noteSession(session)
    this.#tabs.postMessage({ signedIn: session.agent } satisfies Told)
    this.#state = { phase: "in", session }
  }

  #leave(why: string): void {
    noteSession(undefined)
    this.#state = { phase: "out", why }
  }
}

/**
 * The session of who follows a share link. The link's key would take the place of who is signed in, in all tabs: it is not
 * used by who may read the document without it, and otherwise by who says so.
 */
async function byLink(token: string): Promise<Session> {
  const mine = await api.session().catch((error: unknown) => {
    if (error instanceof ApiError && error.signedOut) return undefined
    throw error
  })
  const { route } = router
  if (mine && !mine.share && route.page === "document") {
    const question = `You are signed in as ${mine.agent}, who may not read this document. Open it as a guest instead? That signs ${mine.agent} out in all tabs of this browser.`
    if ((await mayRead(route.ref)) || !confirm(question)) return mine
  }
  return api.signIn(token)
}

async function mayRead(ref: DocumentRef): Promise<boolean> {
  try {
    await api.events(ref, 0, 1)
  } catch (error) {
    if (!(error instanceof ApiError)) throw error
    return error.status !== 403 && error.status !== 404
  }
  return true
}

export const session = new SessionStore()
