// Who is signed in. The key itself lives in a cookie that no script can read.

import { tick } from "svelte"
import { ApiError, api, messageOf } from "./api"
import { forgetHeld } from "./held"
import { forget, notedSession, noteSession, unsavedTitles } from "./local"
import type { Agent, Session } from "./wire"

type State = { phase: "asking" } | { phase: "out"; why: string } | { phase: "in"; session: Session }

class SessionStore {
  #state = $state.raw<State>({ phase: "asking" })

  get state(): State {
    return this.#state
  }

  /** Whose page this is, while somebody is signed in. */
  get agent(): Agent | undefined {
    return this.#state.phase === "in" ? this.#state.session.agent : undefined
  }

  /** Signs in with the key of a share link, or else finds out who is signed in already. */
  async begin(token: string | null): Promise<void> {
    try {
      this.#enter(token ? await api.signIn(token) : await api.session())
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
    this.#leave("You are signed out.")
    await tick() // closes what was open
    forgetHeld(agent)
    await forget(agent)
  }

  /** The server no longer knows the session. */
  expire(): void {
    if (this.state.phase === "in") this.#leave("Your key is no longer valid: it ended, or it was revoked.")
  }

  #enter(session: Session): void {
    noteSession(session)
    this.#state = { phase: "in", session }
  }

  #leave(why: string): void {
    noteSession(undefined)
    this.#state = { phase: "out", why }
  }
}

export const session = new SessionStore()
