// What a browser keeps of documents for somebody, as automerge-repo's chunks.

import type { Page } from "playwright-core"

/** Their keys, which change with each that is written. */
export async function keptChunks(page: Page, agent = "ann"): Promise<string[]> {
  return (await read(page, agent)).map(({ key }) => key)
}

/** Whether words that were inserted in one piece, and are too few to be compressed, are kept. */
export async function keepsWords(page: Page, words: string, agent = "ann"): Promise<boolean> {
  return (await read(page, agent)).some(({ text }) => text.includes(words))
}

function read(page: Page, agent: string): Promise<{ key: string; text: string }[]> {
  return page.evaluate(
    (agent) =>
      new Promise<{ key: string; text: string }[]>((resolve, reject) => {
        const opening = indexedDB.open(`cowrite:${agent}`)
        opening.onerror = () => reject(opening.error as Error)
        opening.onsuccess = () => {
          const reading = opening.result.transaction("documents").objectStore("documents").getAll()
          reading.onsuccess = () => {
            opening.result.close()
            resolve((reading.result as { key: string[]; binary: Uint8Array }[]).map(({ key, binary }) => ({ key: String(key), text: new TextDecoder("latin1").decode(binary) })))
          }
        }
      }),
    agent,
  )
}
