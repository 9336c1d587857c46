// What is read off the replica's document.

import { getBackend, ImmutableString, type Doc, type Heads } from "@automerge/automerge/slim"
import type { SectionId } from "../lib/wire"

/** What a replica's document is expected to be. Anything may be in it all the same: the code that reads it checks. */
export interface Root {
  sections?: Record<SectionId, { body: string | ImmutableString } | undefined>
}

export function readString(value: unknown): string | undefined {
  return typeof value === "string" ? value : value instanceof ImmutableString ? value.val : undefined
}

/** Whether the document has all of these changes. Automerge's own hasHeads decodes each of them: a whole import, for one. */
export function knows(doc: Doc<unknown>, heads: Heads): boolean {
  const backend = getBackend(doc)
  return heads.every((head) => backend.getChangeMetaByHash(head) !== null)
}
