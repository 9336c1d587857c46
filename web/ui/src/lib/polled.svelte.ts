// Something that is read from the server again and again while the page is in sight.

import { ApiError, messageOf } from "./api"
import { session } from "./session.svelte"

export class Polled<T> {
  value = $state.raw<T>()
  failed = $state("")
  loading = $state(false)

  /** To be made where a component is: reading ends with it. */
  constructor(
    private readonly read: () => Promise<T>,
    everyMs: number,
  ) {
    $effect(() => {
      const readIfSeen = () => {
        if (!document.hidden) void this.refresh()
      }
      void this.refresh()
      const timer = setInterval(readIfSeen, everyMs)
      document.addEventListener("visibilitychange", readIfSeen)
      return () => {
        clearInterval(timer)
        document.removeEventListener("visibilitychange", readIfSeen)
      }
    })
  }

  async refresh(): Promise<void> {
    this.loading = true
    try {
      this.value = await this.read()
      this.failed = ""
    } catch (error) {
      if (error instanceof ApiError && error.signedOut) session.expire()
      this.failed = messageOf(error)
    } finally {
      this.loading = false
    }
  }
}
