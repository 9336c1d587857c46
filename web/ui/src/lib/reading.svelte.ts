// Something that is read from the server again whenever what is asked for changes. A reader who drags a slider
// passes by many versions: only where the slider rests is the server asked.

import { messageOf } from "./api"

const restMs = 120

export class Reading<T> {
  value = $state.raw<T>()
  failed = $state("")
  loading = $state(true)
  /** What is to be asked next. One answer is waited for at a time and always shown: what changes faster than the server answers would else never be. */
  #next: (() => Promise<T>) | undefined
  #asking = false

  /** read is called in an effect: what it looks at before it first waits is what it depends on. */
  constructor(read: () => () => Promise<T>) {
    $effect(() => {
      this.#next = read()
      this.loading = true
      const timer = setTimeout(() => void this.#ask(), restMs)
      return () => clearTimeout(timer)
    })
    $effect(() => () => (this.#next = undefined))
  }

  async #ask(): Promise<void> {
    if (this.#asking) return
    this.#asking = true
    while (this.#next) {
      const ask = this.#next
      this.#next = undefined
      try {
        this.value = await ask()
        this.failed = ""
      } catch (error) {
        this.failed = messageOf(error)
      }
    }
    this.#asking = false
    this.loading = false
  }
}
