/** Gives a function that runs at once when it is asked to, and then at most every so many milliseconds while it is asked again. */
export function paced(ms: number, run: () => void): () => void {
  let resting = false
  let asked = false
  return function ask() {
    if (resting) {
      asked = true
      return
    }
    resting = true
    setTimeout(() => {
      resting = false
      if (!asked) return
      asked = false
      ask()
    }, ms)
    run()
  }
}
