// Every author has a colour of their own, made from the name, so that it is the same on every screen.

/** A hue in degrees, 0 to 359. */
export function hueOf(name: string): number {
  let hash = 0x811c9dc5 // FNV-1a, 32 bits
  for (const byte of new TextEncoder().encode(name)) hash = Math.imul(hash ^ byte, 0x01000193)
  // The last bits of similar names differ little: the golden angle throws them apart.
  return Math.floor(((hash >>> 0) * 137.508) % 360)
}

/** Two letters for a small badge: of the name's last part, which is where agents' names differ. */
export function initialsOf(name: string): string {
  const parts = name.split(/[._-]+/).filter(Boolean)
  const last = parts.at(-1) ?? "?"
  const before = parts.at(-2)
  return (before && last.length < 2 ? before[0]! + last : last).slice(0, 2)
}
