/** The frames of cowrite.agent.v1 that a mirror needs (sync/PROTOCOL.md). Positions count code points here. */

import type { TextOp } from "./text.js";
import type { LostLease, Section, Seq, Version } from "./types.js";

export const subprotocol = "cowrite.agent.v1";

export interface Open {
  type: "open";
  id: string;
  document: string;
  /** What the client has: only the difference to it is sent. */
  version?: Version;
}

export interface Close {
  type: "close";
  id: string;
  document: string;
}

export interface Opened {
  type: "opened";
  id?: string;
  document: string;
  title: string;
  version: Version;
  /** The client's version is known: what leads from it to the present one follows as a change. */
  resumed?: boolean;
  sections?: Section[];
  removed?: Section[];
}

export interface Closed {
  type: "closed";
  id?: string;
  document: string;
  error?: string;
  message?: string;
}

export interface Changed {
  type: "changed";
  document: string;
  from: Version;
  to: Version;
  authors?: string[];
  title?: string;
  sections?: SectionChanged[];
}

export type SectionChanged = { id: string; gone: true } | SectionNow;

export interface SectionNow extends Omit<Section, "text"> {
  gone?: false;
  /** It was not there; text is all of it. */
  made?: boolean;
  text?: string;
  ops?: TextOp[];
}

export interface Refused {
  type: "error";
  id?: string;
  document?: string;
  error: string;
  message?: string;
}

export type Answer = { type: "welcome" } | Opened | Closed | Changed | Refused | { type: "leaseLost"; leaseLost: LostLease[] } | { type: "event"; seq: Seq };
