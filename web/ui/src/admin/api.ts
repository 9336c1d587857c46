// The calls of who runs the server, and what they answer.

import { call } from "../lib/api"
import type { Agent, DocumentId, DocumentRef, Role } from "../lib/wire"

export type Kind = "agent" | "person"

export interface Key {
  id: string
  agent: Agent
  kind: Kind
  role: Role
  /** Which documents: * is all, else a pattern of slugs. */
  documents: string
  createdAt: string
  expiresAt?: string
  revokedAt?: string
  /** Of a share link: its one document. */
  share?: DocumentRef
  /** Of a share link: who made it. */
  maker?: Agent
}

export interface NewKey {
  agent: string
  kind: Kind
  role: Role
  documents?: string
  /** Seconds; for ever if not given. */
  expiresIn?: number
}

export interface AgentSummary {
  agent: Agent
  trust: number
  grants: number
  releases: number
  expiries: number
  refusals: number
  holds: number
  waitsFor: number
  lastAt?: string
}

export interface Socket {
  door: "sync" | "agent"
  agent: Agent
  remote: string
  since: string
  documents: DocumentId[]
  documentCount: number
  queuedBytes: number
}

export interface Usage {
  slug: DocumentRef | null
  documentId: DocumentId
  title: string
  changedAt: string
  bytes: number
  changes: number
  open: boolean
  sockets: number
  block?: { at: string; by: Agent; reason: string }
  fault?: { code: string; at: string; count: number }
}

const blockPath = ({ documentId }: Usage) => `/documents/${documentId}/block`

export const operator = {
  keys: async () => (await call<{ keys: Key[] }>("GET", "/keys")).keys,
  /** The answer has the secret, which is not told again. */
  createKey: (key: NewKey) => call<Key & { key: string }>("POST", "/keys", key),
  revokeKey: (id: string) => call<unknown>("DELETE", `/keys/${encodeURIComponent(id)}`),
  agents: async () => (await call<{ agents: AgentSummary[] }>("GET", "/acp/coordination/agents")).agents,
  sockets: async () => (await call<{ sockets: Socket[] }>("GET", "/sockets")).sockets,
  largest: async (limit: number) => (await call<{ documents: Usage[] }>("GET", `/usage?limit=${limit}`)).documents,
  outOfService: async () => (await call<{ documents: Usage[] }>("GET", "/blocks")).documents,
  block: (document: Usage, reason: string) => call<unknown>("PUT", blockPath(document), { reason }),
  unblock: (document: Usage) => call<unknown>("DELETE", blockPath(document)),
}
