// A textarea knows one kind of line end only. A section written with CRLF is edited with LF and saved with CRLF
// again, so that saving changes nothing but what was typed.

export function toEditor(text: string): string {
  return text.replace(/\r\n?/g, "\n")
}

/** The inverse, for a text that began as before. */
export function fromEditor(draft: string, before: string): string {
  return before.includes("\r\n") ? draft.replace(/\n/g, "\r\n") : draft
}
