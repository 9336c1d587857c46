// A writer's replicas in the browser's database, in the form of automerge-repo's own adapter. That one never hears of it
// when the browser takes a write back for want of room, and keeps a client from its server where there is no database.

import type { Chunk, StorageAdapterInterface, StorageKey } from "@automerge/automerge-repo/slim"
import { chunksUnder, localStore, openDatabase } from "../lib/local"
import type { Agent } from "../lib/wire"

interface Kept {
  key: StorageKey
  binary: Uint8Array
}

/** The browser did not keep what it was given, which has been told. */
export class NotKept extends Error {}

export class Storage implements StorageAdapterInterface {
  /** Undefined where this browser has none to give. */
  readonly #database: Promise<IDBDatabase | undefined>

  /** Is told of each save whether the browser keeps it. One that it does not keep fails with NotKept, and can be tried again. */
  constructor(
    writer: Agent,
    private readonly saved: (kept: boolean) => void,
  ) {
    this.#database = openDatabase(writer).catch(() => undefined)
  }

  async load(key: StorageKey): Promise<Uint8Array | undefined> {
    return (await this.#do<Kept | undefined>("readonly", (chunks) => chunks.get(key)))?.binary
  }

  async loadRange(prefix: StorageKey): Promise<Chunk[]> {
    const found = await this.#do<Kept[]>("readonly", (chunks) => chunks.getAll(chunksUnder(prefix)))
    return (found ?? []).map(({ key, binary }) => ({ key, data: binary }))
  }

  async save(key: StorageKey, binary: Uint8Array): Promise<void> {
    try {
      await this.#do("readwrite", (chunks) => chunks.put({ key, binary } satisfies Kept, key))
      this.saved((await this.#database) !== undefined)
    } catch (error) {
      this.saved(false)
      // The client waits for its own id before it goes to the server, which needs none.
      if (key.length > 1) throw new NotKept("save in the browser", { cause: error })
    }
  }

  async remove(key: StorageKey): Promise<void> {
    await this.#do("readwrite", (chunks) => chunks.delete(key))
  }

  async removeRange(prefix: StorageKey): Promise<void> {
    await this.#do("readwrite", (chunks) => chunks.delete(chunksUnder(prefix)))
  }

  /** Its result when it is done, which for a write is when it will be there after a restart of the browser too. */
  async #do<T>(mode: IDBTransactionMode, what: (chunks: IDBObjectStore) => IDBRequest<T>): Promise<T | undefined> {
    const database = await this.#database
    if (!database) return undefined
    return new Promise((resolve, reject) => {
      const transaction = database.transaction(localStore, mode)
      transaction.onabort = () => reject(transaction.error as Error)
      const request = what(transaction.objectStore(localStore))
      transaction.oncomplete = () => resolve(request.result)
    })
  }
}
