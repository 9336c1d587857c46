// The REST calls that the page makes. The cookie of the session goes along by itself.

import { learnClock } from "./clock"
import type {
  Agent,
  BlameRange,
  DeletedDocument,
  Document,
  DocumentDiff,
  DocumentPage,
  DocumentRef,
  EventPage,
  Lease,
  Leases,
  Refusal,
  SectionId,
  Session,
  Share,
  Version,
  Written,
} from "./wire"

export const apiBase = "/api/v1"

/** A refusal by the server, or (status 0) no answer of its own. */
export class ApiError extends Error {
  constructor(
    readonly status: number,
    readonly refusal: Refusal,
  ) {
    super(refusal.message)
  }

  get code(): string {
    return this.refusal.error
  }

  /** The session is over, or there was none. */
  get signedOut(): boolean {
    return this.status === 401
  }
}

const unreachable = () => new ApiError(0, { error: "UNREACHABLE", message: "The server cannot be reached. Check that it runs and that you are online." })

async function request(method: string, path: string, accept: string, body?: unknown): Promise<Response> {
  let response: Response
  try {
    response = await fetch(apiBase + path, {
      method,
      headers: body === undefined ? { Accept: accept } : { Accept: accept, "Content-Type": "application/json" },
      ...(body === undefined ? {} : { body: JSON.stringify(body) }),
    })
  } catch {
    throw unreachable()
  }
  learnClock(response)
  if (response.ok) return response
  const { status } = response
  const refusal = await refusalIn(response)
  // What a proxy says of a server that is down has no code.
  if (!refusal && status >= 502 && status <= 504) throw unreachable()
  throw new ApiError(status, refusal ?? { error: "UNEXPECTED", message: `The server answered with status ${status}.` })
}

export async function call<T>(method: string, path: string, body?: unknown): Promise<T> {
  const response = await request(method, path, "application/json", body)
  return (await response.json()) as T
}

/** What an answer says by which the server refused something; undefined where it is not the server's own. */
export async function refusalIn(response: Response): Promise<Refusal | undefined> {
  const answer: unknown = await response.json().catch(() => null)
  return typeof answer === "object" && answer !== null && "error" in answer && "message" in answer ? (answer as Refusal) : undefined
}

/** What to tell a person about anything that was thrown. */
export function messageOf(thrown: unknown): string {
  return thrown instanceof Error ? thrown.message : String(thrown)
}

const documentPath = (ref: DocumentRef) => `/documents/${encodeURIComponent(ref)}`
const sectionPath = (ref: DocumentRef, id: SectionId) => `${documentPath(ref)}/sections/${encodeURIComponent(id)}`
const leasePath = (ref: DocumentRef, id: SectionId) => `${sectionPath(ref, id)}/lease`

/** Seconds of a lease taken by hand. Writing into the section renews it. */
export const leaseDurationSeconds = 120

export const api = {
  session: () => call<Session>("GET", "/session"),
  signIn: (key: string) => call<Session>("POST", "/session", { key }),
  signOut: () => call<unknown>("DELETE", "/session"),

  /** Those of the names that are people's. */
  people: (names: Agent[]) => call<{ people: Agent[] }>("GET", `/people?${new URLSearchParams(names.map((name) => ["name", name]))}`),

  documents: (after?: string) => call<DocumentPage>("GET", `/documents?limit=50${after ? `&after=${encodeURIComponent(after)}` : ""}`),
  createDocument: (title: string, markdown: string) =>
    call<Document>("POST", "/documents", { ...(title ? { title } : {}), ...(markdown ? { markdown } : {}) }),
  document: (ref: DocumentRef) => call<Document>("GET", documentPath(ref)),
  documentAt: (ref: DocumentRef, version: Version) => call<Document>("GET", `${documentPath(ref)}?version=${encodeURIComponent(version)}`),
  /** From one version to another, or to the present. */
  diff: (ref: DocumentRef, from: Version, to: Version | undefined) =>
    call<DocumentDiff>("GET", `${documentPath(ref)}/diff?from=${encodeURIComponent(from)}${to ? `&to=${encodeURIComponent(to)}` : ""}`),
  blame: (ref: DocumentRef, id: SectionId, version: Version) =>
    call<{ ranges: BlameRange[] }>("GET", `${sectionPath(ref, id)}/blame?version=${encodeURIComponent(version)}`),
  /** The bytes of the document as Markdown. */
  markdown: async (ref: DocumentRef): Promise<Blob> => (await request("GET", documentPath(ref), "text/markdown")).blob(),
  changeDocument: (ref: DocumentRef, change: { title?: string; slug?: string }) =>
    call<Pick<Document, "slug" | "documentId" | "title">>("PATCH", documentPath(ref), change),
  deleteDocument: (ref: DocumentRef) => call<unknown>("DELETE", documentPath(ref)),
  restoreDocument: (ref: DocumentRef) => call<unknown>("POST", `${documentPath(ref)}/restore`),
  /** The deleted documents that this reader may restore, the latest first. */
  deletions: (after?: string) =>
    call<{ documents: DeletedDocument[]; next?: string }>("GET", `/deletions?limit=50${after ? `&after=${encodeURIComponent(after)}` : ""}`),
  /** Takes a deleted document away for good. */
  purgeDocument: (ref: DocumentRef) => call<unknown>("DELETE", `/deletions/${encodeURIComponent(ref)}`),
  share: (ref: DocumentRef, expiresIn: number) => call<Share>("POST", `${documentPath(ref)}/shares`, { expiresIn }),
  endShare: ({ id }: Share) => call<unknown>("DELETE", `/keys/${encodeURIComponent(id)}`),

  addSection: (ref: DocumentRef, text: string) => call<Written>("POST", `${documentPath(ref)}/sections`, { text }),
  /** Puts the section behind another one; with "" it becomes the first. */
  moveSection: (ref: DocumentRef, id: SectionId, after: SectionId | "") => call<Written>("POST", `${sectionPath(ref, id)}/move`, { after }),
  removeSection: (ref: DocumentRef, id: SectionId) => call<unknown>("DELETE", sectionPath(ref, id)),
  restoreSection: (ref: DocumentRef, id: SectionId) => call<Written>("POST", `${sectionPath(ref, id)}/restore`),

  /** Gives a section the text of an earlier version, as a new edit. */
  revertSection: (ref: DocumentRef, id: SectionId, to: Version) => call<Written>("POST", `${sectionPath(ref, id)}/revert`, { to }),

  leases: (ref: DocumentRef) => call<Leases>("GET", `${documentPath(ref)}/leases`),
  takeLease: (ref: DocumentRef, id: SectionId, reason: string) =>
    call<Lease>("POST", leasePath(ref, id), { leaseDurationSeconds, ...(reason ? { reason } : {}) }),
  /** Takes the lease, or else a place in the queue for it, which is refused with SECTION_LEASED all the same. */
  queueForLease: (ref: DocumentRef, id: SectionId, placeSeconds: number) =>
    call<Lease>("POST", leasePath(ref, id), { leaseDurationSeconds, queue: true, placeSeconds }),
  leaveQueue: (ref: DocumentRef, id: SectionId) => call<unknown>("DELETE", `${leasePath(ref, id)}/queue`),
  handOver: (ref: DocumentRef, id: SectionId, to: string) => call<Lease>("POST", `${leasePath(ref, id)}/transfer`, { to }),
  renewLease: (ref: DocumentRef, id: SectionId) => call<Lease>("PATCH", leasePath(ref, id), { leaseDurationSeconds }),
  releaseLease: (ref: DocumentRef, id: SectionId) => call<unknown>("DELETE", leasePath(ref, id)),

  post: (ref: DocumentRef, message: { text: string; sectionId: SectionId; to: Agent }) => call<unknown>("POST", `${documentPath(ref)}/events`, message),
  /** A page of the log as JSON text, for what depends on how it is spelled. */
  eventsText: async (ref: DocumentRef, since: number): Promise<string> =>
    (await request("GET", `${documentPath(ref)}/events?since=${since}&limit=1000`, "application/json")).text(),
  events: (ref: DocumentRef, since: number, limit: number) => call<EventPage>("GET", `${documentPath(ref)}/events?since=${since}&limit=${limit}`),
}
