/** Runs before the next frame is drawn. In a hidden tab no frame ever comes: there it is a tenth of a second. */
export function nextFrame(run: () => void): void {
  if (document.hidden) setTimeout(run, 100)
  else requestAnimationFrame(run)
}
