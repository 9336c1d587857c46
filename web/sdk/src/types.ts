/** What the server says, in the words of its REST routes. */

import type { TextOp } from "./text.js";

/** An opaque name of a state of a document. */
export type Version = string;

/** Position in a document's log, from "1", without gaps: a decimal string. */
export type Seq = string;

export interface Section {
  id: string;
  /** Text of the heading line, "" without one. */
  heading: string;
  /** Of the heading, 1 to 6; 0 without one. */
  level: number;
  /** Raw Markdown with its heading line. */
  text: string;
  /** Sections are ordered by position and id. */
  position: string;
  removed?: boolean;
}

/** A section's text at a version: what an edit can be based on. */
export interface Base {
  id: string;
  text: string;
  version: Version;
}

export interface SectionState extends Section {
  version: Version;
  /** Who holds the lease, if anybody does; it is advisory. */
  lease?: HeldBy;
}

export interface HeldBy {
  holder: string;
  leaseId: string;
  expiresAt: string;
  expiresInMs: number;
  reason?: string;
}

/** A document without its content. */
export interface DocumentHead {
  /** Null for a document made by a replica and not named yet. */
  slug: string | null;
  documentId: string;
  /** automerge-repo's document URL. */
  url: string;
  title: string;
  version: Version;
  createdAt: string;
  createdBy: string;
  changedAt: string;
  lastSeq: Seq;
  me: { agent: string; role: "viewer" | "editor" | "admin"; canWrite: boolean };
}

export interface DocumentState extends DocumentHead {
  sections: Section[];
  removed: Section[];
  /** Paths of content that fits no schema; it is kept. */
  ignored: string[];
}

export interface DocumentEntry extends Pick<DocumentHead, "slug" | "documentId" | "url" | "title" | "createdAt" | "createdBy" | "changedAt" | "lastSeq"> {
  /** Sections leased right now. */
  leases: number;
}

/** A document in the list of what is deleted. */
export interface DeletedEntry extends Pick<DocumentHead, "slug" | "documentId" | "url" | "title" | "createdAt" | "createdBy"> {
  deletedAt: string;
  deletedBy: string;
}

export interface NewDocument {
  slug?: string;
  title?: string;
  markdown?: string;
  /** Split into sections at headings down to this level; 2 if not given. */
  level?: number;
}

/** The three ways to say how a section's text is to change. Positions count UTF-16 units of the base's text. */
export type Change =
  | { text: string; ops?: never; replace?: never }
  | { ops: readonly TextOp[]; text?: never; replace?: never }
  | { replace: readonly Replacement[]; text?: never; ops?: never };

export interface Replacement {
  find: string;
  with: string;
  /** Which of several, from 1. Without it the passage has to be there once. */
  occurrence?: number;
}

/** What a write to a section came to. */
export interface Written extends Section {
  version: Version;
  /** Others had written since the base; their text is in. */
  merged: boolean;
  mergedFrom?: MergedFrom;
  /** The edit had been made before, under the same name, and was not made again. */
  repeated?: boolean;
  /** What the writer may not know of the leases there. The write counts all the same. */
  advisory?: Advisory;
}

export interface MergedFrom {
  /** Whose writing was merged in, without the writer's own. */
  agents: string[];
  /**
   * Length units of the answer's text from at on came since the base; deleted code points of the writer's are gone. agent is
   * whose that is: it may be the writer's own of before, and is left out where the server cannot tell.
   */
  ranges: { at: number; length: number; deleted: number; agent?: string }[];
}

export interface Advisory {
  kind: "leased" | "stale_fence";
  holder?: string;
  leaseId?: string;
  expiresAt?: string;
  expiresInMs?: number;
  reason?: string;
  fence?: number;
  supersededBy?: number;
  message: string;
}

export interface WriteOptions {
  /** Of the lease that the writer believes to hold. A stale one is reported. */
  fence?: number | undefined;
  /** Names the write, so that it counts once however often it is sent; made if not given. 1 to 255 visible ASCII characters. */
  idempotencyKey?: string | undefined;
  signal?: AbortSignal | undefined;
}

/** An entry of a document's log. */
export interface LogEvent {
  id: string;
  seq: Seq;
  event_type: string;
  actor_id: string;
  payload: Record<string, unknown>;
  created_at: string;
  hash: string;
}

export interface EventPage {
  events: LogEvent[];
  has_more: boolean;
  next_since: Seq;
}

/** A lease as it was granted. */
export interface Grant {
  leaseId: string;
  /** This request made it; left out where the agent had it already, in another process perhaps. */
  granted?: boolean;
  holder: string;
  expiresAt: string;
  expiresInMs: number;
  acquiredAt: string;
  fence: number;
  reason?: string;
  mode: "exclusive" | "shared";
  sectionId: string;
  holders?: string[];
  advisory: string;
}

/** A lease that ended without its holder's doing. Answers that are not JSON tell its id alone. */
export interface LostLease {
  leaseId: string;
  /** section:<slug>/<section id>, or another resource's name. */
  resource?: string;
  sectionId?: string;
  fence?: number;
  /** "expire", "force" or "end"; "refused" where a renewal was. */
  action?: string;
  by?: string;
  reason?: string;
  at?: string;
}

export interface LeaseList {
  leases: Grant[];
  queues: { sectionId: string; reservedFor?: string; waiters: { agent: string; position: number; since: string }[] }[];
}
