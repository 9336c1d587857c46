// What a browser keeps of documents, so that a closed tab loses nothing that was written while the link was down. It is
// kept for each writer apart (a change counts as its writer's, whoever has signed in meanwhile), at the longest
// until that writer signs out.

import { refOf, type Agent, type Document, type DocumentId, type DocumentRef, type Session, type Version } from "./wire"

/** The one store in the database of each writer. */
export const localStore = "documents"

/** Titles of the documents in which something is not known to have reached the server. */
type Unsaved = Record<DocumentId, string>

const unsavedKey = (writer: Agent) => `cowrite:unsaved:${writer}`

function unsavedOf(writer: Agent): Unsaved {
  return JSON.parse(localStorage.getItem(unsavedKey(writer)) ?? "{}") as Unsaved
}

/** Notes that a document has something unsaved, under its title, or with undefined that it has not. */
export function noteUnsaved(writer: Agent, id: DocumentId, title: string | undefined): void {
  const { [id]: before, ...others } = unsavedOf(writer)
  if (before === title) return
  localStorage.setItem(unsavedKey(writer), JSON.stringify(title === undefined ? others : { ...others, [id]: title }))
}

/** Whether something written in a document is not known to have reached the server. */
export function isUnsaved(writer: Agent, id: DocumentId): boolean {
  return id in unsavedOf(writer)
}

export function unsavedTitles(writer: Agent): string[] {
  return Object.values(unsavedOf(writer))
}

const sessionKey = "cowrite:session"

/** Notes who is signed in, or with undefined that nobody is. It opens nothing at the server. */
export function noteSession(session: Session | undefined): void {
  if (session) localStorage.setItem(sessionKey, JSON.stringify(session))
  else localStorage.removeItem(sessionKey)
}

/** Who was signed in when the server was last reached. */
export function notedSession(): Session | undefined {
  return JSON.parse(localStorage.getItem(sessionKey) ?? "null") ?? undefined
}

const keptKey = (writer: Agent) => `cowrite:kept:${writer}`
/** So many documents are kept, those that were opened last, and what has something unsaved. */
const mostKept = 100

/** A document, without its text, whose replica is in this browser; of one that is withheld only for what is unsaved in it. */
type Kept = Document & { withheld?: boolean }

/** The one that was opened last is the first. */
function allKept(writer: Agent): Kept[] {
  return JSON.parse(localStorage.getItem(keptKey(writer)) ?? "[]") as Kept[]
}

function keep(writer: Agent, documents: Kept[]): void {
  localStorage.setItem(keptKey(writer), JSON.stringify(documents))
}

function find(documents: Kept[], ref: DocumentRef): Kept | undefined {
  return documents.find((document) => refOf(document) === ref || (document.documentId as string) === ref)
}

/** Documents that can be read from this browser's replica. The one that was opened last is the first. */
export function keptDocuments(writer: Agent): Document[] {
  return allKept(writer).filter(({ withheld }) => !withheld)
}

/** Notes that this browser has a replica of a document. What is one too many goes, with its replica. */
export async function noteKept(writer: Agent, document: Document): Promise<void> {
  const kept = { ...document, version: "" as Version, sections: [], removed: [] }
  const all = [kept, ...allKept(writer).filter(({ documentId }) => documentId !== document.documentId)]
  const unsaved = unsavedOf(writer)
  const stays = ({ documentId }: Document, i: number) => i < mostKept || documentId in unsaved
  keep(writer, all.filter(stays))
  const gone = all.filter((each, i) => !stays(each, i))
  if (gone.length) await emptyStore(writer, gone)
}

export function keptDocument(writer: Agent, ref: DocumentRef): Document | undefined {
  return find(keptDocuments(writer), ref)
}

/** Whether this browser keeps something of a document that is not known to have reached the server. */
export function keepsUnsaved(writer: Agent, ref: DocumentRef): boolean {
  const document = find(allKept(writer), ref)
  return document !== undefined && isUnsaved(writer, document.documentId)
}

/**
 * Drops a document that the server withholds (403) or that was deleted (410), with its replica. One with something unsaved
 * stays: a deleted one to be read on, a withheld one unread until it may be written in again.
 */
export async function dropRefused(status: number, writer: Agent, ref: DocumentRef): Promise<void> {
  const all = allKept(writer)
  const document = status === 403 || status === 410 ? find(all, ref) : undefined
  if (!document) return
  if (keepsUnsaved(writer, ref)) return keep(writer, all.map((each) => (each === document && status === 403 ? { ...each, withheld: true } : each)))
  keep(writer, all.filter((each) => each !== document))
  await emptyStore(writer, [document])
}

const closing = new Set<Promise<unknown>>()

/** What is still being written by who has closed already. */
export function untilClosed(work: Promise<unknown>): void {
  const done = work.catch(() => undefined).finally(() => closing.delete(done))
  closing.add(done)
}

/**
 * Forgets what is kept for a writer who has signed out. Each tab does so when what it had open is closed: the last one
 * leaves nothing behind.
 */
export async function forget(writer: Agent): Promise<void> {
  localStorage.removeItem(unsavedKey(writer))
  localStorage.removeItem(keptKey(writer))
  await Promise.all(closing)
  // Who has come back meanwhile keeps what is theirs.
  if (notedSession()?.agent !== writer) await emptyStore(writer)
}

/** Takes the replicas of some documents, or of all, out of a writer's database, behind what is still being written to it. */
async function emptyStore(writer: Agent, documents?: Document[]): Promise<void> {
  await Promise.all(closing)
  const database = await openDatabase(writer)
  await new Promise<void>((resolve, reject) => {
    const clearing = database.transaction(localStore, "readwrite")
    const store = clearing.objectStore(localStore)
    if (!documents) store.clear()
    // automerge-repo's keys begin with its id of the document.
    else for (const { url } of documents) store.delete(chunksUnder([url.replace(/^automerge:/, "")]))
    clearing.oncomplete = () => resolve()
    clearing.onabort = () => reject(clearing.error as Error)
  })
  database.close()
}

/** Opens a writer's database. Fails where the browser has none to give. */
export function openDatabase(writer: Agent): Promise<IDBDatabase> {
  return new Promise((resolve, reject) => {
    const opening = indexedDB.open(`cowrite:${writer}`, 1)
    opening.onupgradeneeded = () => opening.result.createObjectStore(localStore)
    opening.onsuccess = () => resolve(opening.result)
    opening.onerror = () => reject(opening.error as Error)
  })
}

/** All keys that begin with these strings. */
export function chunksUnder(prefix: string[]): IDBKeyRange {
  return IDBKeyRange.bound(prefix, [...prefix, []]) // an array comes behind all strings
}
