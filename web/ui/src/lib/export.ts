// A document as a file on the reader's disk.

import { api } from "./api"
import type { DocumentRef } from "./wire"

/** Downloads the document as Markdown, byte for byte as the server has it. Throws ApiError. */
export async function exportMarkdown(ref: DocumentRef): Promise<void> {
  const link = document.createElement("a")
  link.href = URL.createObjectURL(await api.markdown(ref))
  link.download = `${ref}.md`
  link.click()
  URL.revokeObjectURL(link.href)
}
