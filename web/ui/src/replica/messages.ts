// What the page and the worker that keeps its replica say to each other. The page holds no Automerge: it reads the
// content as it is told, and writes in a section's text by operations on a version of it.
//
// A text's versions count the updates made to it since the page began to write in it. The worker decides: what the page
// wrote on the version that the worker has becomes the next one, what it wrote on an older version is stale, and the page
// brings it up to what it was told meanwhile and pushes it again. Messages arrive in the order in which they were sent, so
// that a position which the worker tells is always one in the last version that it told.

import type { Cursor } from "@automerge/automerge/slim"
import type { LinkState } from "../lib/events"
import type { SectionContent } from "../lib/sections"
import type { Agent, DocumentUrl, SectionId } from "../lib/wire"

/** A document's content, told by what is new in it since it was told last. */
export interface ContentNews {
  title: string
  /** In order. */
  sections: SectionId[]
  removed: SectionId[]
  /** Those that are new or changed. */
  changed: SectionContent[]
}

/** A caret, or with an anchor elsewhere a selection, that stays with the text around it; as presences carry it. */
export interface Place {
  head: Cursor
  anchor: Cursor
}

/** Where somebody is: at a place that they told, or where the last of these changes ended. */
export type Whereabouts = { agent: Agent } & (Place | { changes: string[] })

/** Where somebody is in the text of the last version told, in UTF-16 units. */
export interface Position {
  agent: Agent
  head: number
  anchor: number
}

/** What the page says about one section's text. */
export type TextRequest =
  | { type: "begin" }
  /** Each update is a change set of CodeMirror as JSON, on the text that the one before it leaves. */
  | { type: "push"; version: number; updates: unknown[] }
  /** Where the writer's own caret is, to be told as a place; on an older version there is no answer. */
  | { type: "locate"; version: number; head: number; anchor: number }
  /** Whom to find in this text, from now on and whenever it changes. */
  | { type: "follow"; whereabouts: Whereabouts[] }
  | { type: "end" }

export type TextReply =
  /** Version 0; undefined where there is no text. */
  | { type: "begun"; text: string | undefined }
  | { type: "updated"; updates: { changes: unknown; pushed: boolean }[] }
  | { type: "stale" }
  | { type: "located"; place: Place }
  | { type: "found"; positions: Position[] }
  /** The text is no longer in the document. */
  | { type: "gone" }

export type ReplicaRequest =
  | { type: "open"; url: DocumentUrl; writer: Agent; alone: boolean; server: string }
  /** Replaces a socket that may be dead. */
  | { type: "reconnect" }
  /** Writes to the browser's database what is not there yet: the page may be gone the next moment. */
  | { type: "flush" }
  /** Ends it when all is on the server's disk, or is known not to get there soon, as where the server refused the document. */
  | { type: "close"; refused: boolean }
  | { type: "text"; section: SectionId; request: TextRequest }

export type ReplicaReply =
  /** Never older than what the server had at first contact. */
  | { type: "content"; news: ContentNews }
  | { type: "link"; state: LinkState }
  /** The sections with changes that are not known to be on the server's disk; without them, everything is. */
  | { type: "unsaved"; sections: SectionId[] | undefined }
  /** Whether what is unsaved would be there if the page were closed now: the browser may have no room for it. */
  | { type: "kept"; kept: boolean }
  /** The server closed the socket with a code that says not to come back: 4000 plus the status that HTTP has for it. */
  | { type: "refused"; closeCode: number }
  | { type: "failed"; message: string }
  | { type: "closed" }
  | { type: "text"; section: SectionId; reply: TextReply }
