// Where two texts differ.

/** The span of now that is left when what it begins and ends with like before is taken off. */
export function changedSpan(before: string, now: string): [from: number, to: number] {
  const shorter = Math.min(before.length, now.length)
  let from = 0
  while (from < shorter && before[from] === now[from]) from++
  let same = 0
  while (same < shorter - from && before.at(-1 - same) === now.at(-1 - same)) same++
  return [from, now.length - same]
}
