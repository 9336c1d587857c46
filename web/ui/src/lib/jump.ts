// Jumps to a section. Sections out of sight are not laid out, and their heights are guesses; as they come into
// sight on the way the place of the target moves, so the jump is made again until the target stays put.

const maxFrames = 30

export function jumpToHash(): void {
  const target = document.getElementById(decodeURIComponent(window.location.hash.slice(1)))
  if (!target) return
  let before: number | undefined
  let frames = 0
  const settle = () => {
    target.scrollIntoView()
    const { top } = target.getBoundingClientRect()
    if (top === before || ++frames === maxFrames) return
    before = top
    requestAnimationFrame(settle)
  }
  settle()
}
