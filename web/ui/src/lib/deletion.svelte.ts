// The document that this reader has just deleted, as long as undoing it is offered.

import type { DocumentRef } from "./wire"

class LastDeletion {
  document = $state.raw<{ ref: DocumentRef; title: string }>()
}

export const lastDeletion = new LastDeletion()
