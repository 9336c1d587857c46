// Parts of a JSON text as they were written, byte for byte: JSON.parse and JSON.stringify together may change how
// a number or a character is spelled, and a hash is over the spelling. The texts are taken to be valid JSON.

/** The items of an array. */
export function rawItems(array: string): string[] {
  return split(array)
}

/** The values of an object's members, by name. */
export function rawMembers(object: string): Map<string, string> {
  return new Map(
    split(object).map((member) => {
      const end = endOfString(member, 0)
      return [JSON.parse(member.slice(0, end)) as string, member.slice(member.indexOf(":", end) + 1).trim()]
    }),
  )
}

/** What stands between the commas of an array or object, at its own level only. */
function split(text: string): string[] {
  const parts: string[] = []
  let depth = 0
  let begin = 0
  for (let at = 0; at < text.length; at++) {
    switch (text[at]) {
      case '"':
        at = endOfString(text, at) - 1
        break
      case "[":
      case "{":
        if (++depth === 1) begin = at + 1
        break
      case "]":
      case "}":
        if (--depth === 0) {
          const last = text.slice(begin, at).trim()
          return last || parts.length ? [...parts, last] : []
        }
        break
      case ",":
        if (depth === 1) {
          parts.push(text.slice(begin, at).trim())
          begin = at + 1
        }
    }
  }
  return parts
}

/** The place behind a string's closing quote. */
function endOfString(text: string, open: number): number {
  for (let at = open + 1; at < text.length; at++) {
    if (text[at] === "\\") at++
    else if (text[at] === '"') return at + 1
  }
  return text.length
}
