// Who is signed in. The key itself lives in a cookie that no script can read.

import { ApiError, api, messageOf } from "./api"
import type { Session } from "./wire"

type State = { phase: "asking" } | { phase: "out"; why: string } | { phase: "in"; session: Session }

class SessionStore {
  state = $state.raw<State>({ phase: "asking" })

  /** Signs in with the key of a share link, or else finds out who is signed in already. */
  async begin(token: string | null): Promise<void> {
    try {
      this.state = { phase: "in", session: token ? await api.signIn(token) : await api.session() }
    } catch (error) {
      const plainlyOut = error instanceof ApiError && error.signedOut
      const why = plainlyOut ? (token ? "This link is no longer valid. Ask for a new one, or sign in with a key." : "") : messageOf(error)
      this.state = { phase: "out", why }
    }
  }

  /** Throws ApiError when the key is refused. */
  async signIn(key: string): Promise<void> {
    this.state = { phase: "in", session: await api.signIn(key) }
  }

  async signOut(): Promise<void> {
    await api.signOut()
    this.state = { phase: "out", why: "You are signed out." }
  }

  /** The server no longer knows the session. */
  expire(): void {
    if (this.state.phase === "in") this.state = { phase: "out", why: "Your key is no longer valid: it ended, or it was revoked." }
  }
}

export const session = new SessionStore()
