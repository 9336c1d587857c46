// What the server's answers look like under /api/v1. Times are ISO 8601 in UTC with milliseconds, event
// numbers are decimal strings.

declare const kind: unique symbol
type Name<K extends string> = string & { readonly [kind]: K }

/** How a document is called in addresses: its slug, or its id if it has none. */
export type DocumentRef = Name<"document ref">
export type DocumentId = Name<"document id">
/** automerge-repo's address of a document. */
export type DocumentUrl = Name<"document url">
export type SectionId = Name<"section id">
export type LeaseId = Name<"lease id">
/** The name of an agent or a person. */
export type Agent = Name<"agent">
/** An opaque token that names one state of a document. */
export type Version = Name<"version">
export type Seq = Name<"seq">

export type Role = "viewer" | "editor" | "admin"

export interface Session {
  agent: Agent
  role: Role
  documents: string
  /** Of a share link: its one document. */
  share?: string
}

export interface DocumentSummary {
  slug: DocumentRef | null
  documentId: DocumentId
  url: DocumentUrl
  title: string
  createdAt: string
  createdBy: Agent
  changedAt: string
  lastSeq: Seq
  leases: number
  /** Who has it open now: on a page, as a person has it, or with a program. */
  present: { agent: Agent; page: boolean }[]
}

export interface DocumentPage {
  documents: DocumentSummary[]
  next?: string
}

/** A document in the list of what is deleted. */
export interface DeletedDocument extends Pick<DocumentSummary, "slug" | "documentId" | "title"> {
  deletedAt: string
  deletedBy: Agent
}

export interface Section {
  id: SectionId
  heading: string
  level: number
  text: string
  position: string
  removed?: true
}

export interface Document extends Omit<DocumentSummary, "leases" | "present"> {
  version: Version
  sections: Section[]
  removed: Section[]
  ignored: string[]
  me: { agent: Agent; role: Role; canWrite: boolean }
}

/** Somebody's lease, as a write or a refusal tells of it. */
export interface Advisory {
  holder: Agent
  leaseId: LeaseId
  expiresAt: string
  expiresInMs: number
  reason?: string
  message: string
}

export interface SectionWithVersion extends Section {
  version: Version
}

export interface Written extends SectionWithVersion {
  merged: boolean
  advisory?: Advisory
}

export interface Lease {
  leaseId: LeaseId
  holder: Agent
  sectionId: SectionId
  expiresAt: string
  expiresInMs: number
  acquiredAt: string
  fence: number
  mode: string
  reason?: string
}

/** Take so many code points out at a place, and put a text there. */
export interface TextOp {
  at: number
  delete?: number
  insert?: string
}

/** What became of a section from one version to another. Its text is given only where it was made. */
export interface SectionDiff extends Section {
  made?: true
  gone?: true
  /** In order, on the text of the first version. */
  ops: TextOp[]
}

export interface DocumentDiff {
  from: Version
  to: Version
  title?: string
  sections: SectionDiff[]
}

/** A passage by one author, in code points; without an agent where that is not known. */
export interface BlameRange {
  at: number
  length: number
  agent?: Agent
}

/** A link with which anybody may read one document until it ends. */
export interface Share {
  id: string
  url: string
  expiresAt: string
}

export interface Waiter {
  agent: Agent
  position: number
  since: string
}

export interface Leases {
  leases: Lease[]
  queues: { sectionId: SectionId; waiters: Waiter[] }[]
}

export interface LogEvent {
  id: string
  seq: Seq
  event_type: string
  actor_id: Agent
  payload: Record<string, unknown>
  created_at: string
}

export interface EventPage {
  events: LogEvent[]
  has_more: boolean
  next_since: Seq
}

/** The body of every refusal: a code word, a sentence, and the facts needed to act on it. */
export interface Refusal {
  error: string
  message: string
  [fact: string]: unknown
}

export function refOf(document: Pick<DocumentSummary, "slug" | "documentId">): DocumentRef {
  return document.slug ?? (document.documentId as string as DocumentRef)
}
