// The event log's hash chain. An event's hash is the SHA-256 over the hash of the event before it (zeros for the
// first) and its own seq, id, type, actor, time and payload, each led by its length in 8 bytes, big endian. So no
// event can be changed, left out or put in without every later hash being another.

import { rawItems, rawMembers } from "./rawjson"

export type ChainReport = { intact: true; events: number } | { intact: false; events: number; why: string }

const encoder = new TextEncoder()

/** Whether this page may compute hashes: browsers allow it on HTTPS and on the reader's own machine only. */
export function canVerify(): boolean {
  return globalThis.crypto?.subtle !== undefined
}

/**
 * Verifies a log from its first event on. read gives the server's page of events behind a number as its JSON text;
 * progress is told how many events are verified so far.
 */
export async function verifyChain(read: (since: number) => Promise<string>, progress: (events: number) => void): Promise<ChainReport> {
  let previous: Uint8Array = new Uint8Array(32)
  let count = 0
  for (;;) {
    const page = rawMembers(await read(count))
    const events = rawItems(page.get("events") ?? "[]")
    for (const text of events) {
      const event = rawMembers(text)
      const field = (name: string) => JSON.parse(event.get(name) ?? '""') as string
      const seq = field("seq")
      if (seq !== String(count + 1)) return { intact: false, events: count, why: `Event ${count + 1} is missing.` }
      const hash = await digest([
        previous,
        ...[seq, field("id"), field("event_type"), field("actor_id"), field("created_at"), event.get("payload") ?? ""].map((part) => encoder.encode(part)),
      ])
      if (hex(hash) !== field("hash")) return { intact: false, events: count, why: `Event ${seq} is not what was logged, or the one before it is not.` }
      previous = hash
      count++
    }
    progress(count)
    if (page.get("has_more") !== "true") return { intact: true, events: count }
  }
}

async function digest(fields: Uint8Array[]): Promise<Uint8Array> {
  const bytes = new Uint8Array(fields.reduce((sum, field) => sum + 8 + field.length, 0))
  const view = new DataView(bytes.buffer)
  let at = 0
  for (const field of fields) {
    view.setBigUint64(at, BigInt(field.length))
    bytes.set(field, at + 8)
    at += 8 + field.length
  }
  return new Uint8Array(await crypto.subtle.digest("SHA-256", bytes))
}

function hex(bytes: Uint8Array): string {
  return Array.from(bytes, (byte) => byte.toString(16).padStart(2, "0")).join("")
}
