// Something that is read from the server again whenever what is asked for changes. A reader who drags a slider
// passes by many versions: only where the slider rests is the server asked.

import { messageOf } from "./api"

const restMs = 120

export class Reading<T> {
  value = $state.raw<T>()
  failed = $state("")
  loading = $state(true)

  /** read is called in an effect: what it looks at before it first waits is what it depends on. */
  constructor(read: () => () => Promise<T>) {
    $effect(() => {
      const ask = read()
      this.loading = true
      let left = false
      const timer = setTimeout(() => {
        ask().then(
          (value) => {
            if (left) return
            this.value = value
            this.failed = ""
            this.loading = false
          },
          (error) => {
            if (left) return
            this.failed = messageOf(error)
            this.loading = false
          },
        )
      }, restMs)
      return () => {
        left = true
        clearTimeout(timer)
      }
    })
  }
}
