// The text/event-stream format, as the WHATWG HTML standard has it in section 9.2.6 ("Interpreting an event
// stream"). The browser's own EventSource is of no use here: it delivers only event names that were asked for
// one by one, and it gives up for good on the first answer that is no stream.

export type SseItem = { kind: "data"; data: string } | { kind: "retry"; ms: number }

/** Takes in a stream piece by piece and gives out what is complete. */
export class SseParser {
  #rest = ""
  #data: string[] = []
  #afterCarriageReturn = false

  push(chunk: string): SseItem[] {
    // A line may end in CR, LF or both; a CR at the end of a piece may have its LF in the next.
    if (this.#afterCarriageReturn && chunk.startsWith("\n")) chunk = chunk.slice(1)
    if (chunk) this.#afterCarriageReturn = chunk.endsWith("\r")
    const lines = (this.#rest + chunk).split(/\r\n|\r|\n/)
    this.#rest = lines.pop() ?? ""
    return lines.flatMap((line) => this.#line(line))
  }

  #line(line: string): SseItem[] {
    if (line === "") {
      const data = this.#data
      this.#data = []
      return data.length ? [{ kind: "data", data: data.join("\n") }] : []
    }
    const colon = line.indexOf(":")
    const field = colon < 0 ? line : line.slice(0, colon)
    const value = colon < 0 ? "" : line.slice(colon + 1).replace(/^ /, "")
    if (field === "data") this.#data.push(value)
    if (field === "retry" && /^\d+$/.test(value)) return [{ kind: "retry", ms: Number(value) }]
    return []
  }
}
