// The REST calls that the page makes. The cookie of the session goes along by itself.

import type {
  Document,
  DocumentPage,
  DocumentRef,
  EventPage,
  Lease,
  Leases,
  Refusal,
  SectionId,
  SectionWithVersion,
  Session,
  Version,
  Written,
} from "./wire"

export const apiBase = "/api/v1"

/** A refusal by the server, or (status 0) no answer at all. */
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

async function call<T>(method: string, path: string, body?: unknown): Promise<T> {
  let response: Response
  try {
    response = await fetch(apiBase + path, {
      method,
      headers: body === undefined ? { Accept: "application/json" } : { Accept: "application/json", "Content-Type": "application/json" },
      ...(body === undefined ? {} : { body: JSON.stringify(body) }),
    })
  } catch {
    throw new ApiError(0, { error: "UNREACHABLE", message: "The server cannot be reached. Check that it runs and that you are online." })
  }
  const answer: unknown = await response.json().catch(() => null)
  if (!response.ok) throw new ApiError(response.status, refusalOf(answer, response.status))
  return answer as T
}

function refusalOf(answer: unknown, status: number): Refusal {
  if (typeof answer === "object" && answer !== null && "error" in answer && "message" in answer) return answer as Refusal
  return { error: "UNEXPECTED", message: `The server answered with status ${status}.` }
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

  documents: (after?: string) => call<DocumentPage>("GET", `/documents?limit=50${after ? `&after=${encodeURIComponent(after)}` : ""}`),
  createDocument: (title: string, markdown: string) =>
    call<Document>("POST", "/documents", { ...(title ? { title } : {}), ...(markdown ? { markdown } : {}) }),
  document: (ref: DocumentRef) => call<Document>("GET", documentPath(ref)),

  section: (ref: DocumentRef, id: SectionId) => call<SectionWithVersion>("GET", sectionPath(ref, id)),
  writeSection: (ref: DocumentRef, id: SectionId, text: string, base: Version) => call<Written>("PUT", sectionPath(ref, id), { text, base }),
  addSection: (ref: DocumentRef, text: string) => call<Written>("POST", `${documentPath(ref)}/sections`, { text }),

  leases: (ref: DocumentRef) => call<Leases>("GET", `${documentPath(ref)}/leases`),
  takeLease: (ref: DocumentRef, id: SectionId, reason: string) =>
    call<Lease>("POST", leasePath(ref, id), { leaseDurationSeconds, ...(reason ? { reason } : {}) }),
  renewLease: (ref: DocumentRef, id: SectionId) => call<Lease>("PATCH", leasePath(ref, id), { leaseDurationSeconds }),
  releaseLease: (ref: DocumentRef, id: SectionId) => call<unknown>("DELETE", leasePath(ref, id)),

  events: (ref: DocumentRef, since: number, limit: number) => call<EventPage>("GET", `${documentPath(ref)}/events?since=${since}&limit=${limit}`),
}
