// What the coordination routes answer, under /api/v1/acp/coordination. Agents are named by DID there.

import type { Entry } from "../playground/engine"

type Did = string

export interface ResourceLease {
  leaseId: string
  resource: string
  holder: Did
  mode: "exclusive" | "shared"
  reason?: string
  fence: number
  acquiredAt: string
  expiresAt: string
  expiresInMs: number
  ttlMs: number
}

export interface ResourceStanding {
  resource: string
  leases: ResourceLease[]
  reservedFor?: Did[]
  waiters: { actorDid: Did; position: number; since: string; mode: "exclusive" | "shared" }[]
}

/** GET /resources */
export interface Standing {
  resources: ResourceStanding[]
  total: number
  waits: { actorDid: Did; for: Did; resource: string }[]
  agents: { actorDid: Did; trust: number }[]
}

/** A circle of waiting that was refused: actors[i] would have waited for resources[i]. */
export interface Deadlock {
  actors: Did[]
  resources: string[]
  at: string
}

/** GET /ledger */
export interface LedgerPage {
  entries: LedgerEntry[]
  hasMore: boolean
  next: string
}

export interface LedgerEntry extends Entry {
  at: string
}
