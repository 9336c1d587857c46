// What a browser keeps of documents, so that a closed tab loses nothing that was written while the link was down. It is
// kept for each writer apart (a change counts as its writer's, whoever has signed in meanwhile) until that writer
// signs out.

import type { Agent, DocumentId } from "./wire"

/** The database of one writer, and the one store in it. */
export const localName = (writer: Agent): string => `cowrite:${writer}`
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

export function unsavedTitles(writer: Agent): string[] {
  return Object.values(unsavedOf(writer))
}

const closing = new Set<Promise<unknown>>()

/** What is still being written by who has closed already. */
export function untilClosed(work: Promise<unknown>): void {
  const done = work.catch(() => undefined).finally(() => closing.delete(done))
  closing.add(done)
}

/** Empties a writer's database, behind what is still being written to it. Nobody may have it open to write any more. */
export async function forget(writer: Agent): Promise<void> {
  localStorage.removeItem(unsavedKey(writer))
  await Promise.all(closing)
  const database = await new Promise<IDBDatabase>((resolve, reject) => {
    const opening = indexedDB.open(localName(writer), 1)
    opening.onupgradeneeded = () => opening.result.createObjectStore(localStore)
    opening.onsuccess = () => resolve(opening.result)
    opening.onerror = () => reject(opening.error as Error)
  })
  await new Promise<void>((resolve, reject) => {
    const clearing = database.transaction(localStore, "readwrite")
    clearing.objectStore(localStore).clear()
    clearing.oncomplete = () => resolve()
    clearing.onerror = () => reject(clearing.error as Error)
  })
  database.close()
}
