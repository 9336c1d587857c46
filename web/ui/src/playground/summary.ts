// What a move is about, in a line. A request is text that its reader may have made into anything.

import { durations } from "../lib/duration"
import type { Entry, Move } from "./engine"

export interface Summary {
  agent: string
  does: string
  resource: string
}

export function bareName(did: string): string {
  return did.replace(/^did:cowrite:/, "")
}

/** "0:20.5" since the scene began. */
export function formatClock(ms: number): string {
  const seconds = (ms % 60_000) / 1000
  const text = Number.isInteger(seconds) ? String(seconds).padStart(2, "0") : seconds.toFixed(3).padStart(6, "0")
  return `${Math.floor(ms / 60_000)}:${text}`
}

export function summarize(move: Move): Summary {
  if (move.request === undefined) return { agent: "", does: `${durations.ofMs(move.passMs ?? 0, "narrow")} pass`, resource: "" }
  const [line = "", ...rest] = move.request.trimStart().split("\n")
  const [method = "", target = ""] = line.split(/\s+/)
  const route = target.replace(/^.*\/coordination/, "")
  let body: Record<string, unknown> = {}
  try {
    body = JSON.parse(rest.join("\n")) as Record<string, unknown>
  } catch {
    // a read has none, and one that is being written is not JSON yet
  }
  const text = (name: string) => (typeof body[name] === "string" ? (body[name] as string) : "")
  const agent = bareName(text("actorDid"))
  const resource = text("resource") || decoded(/[?&]resource=([^&\s]*)/.exec(route)?.[1] ?? "")
  if (method === "POST" && route === "/lease") {
    const operation = text("operation")
    return { agent, does: operation ? `asks to ${operation}` : "asks for", resource }
  }
  if (method === "POST" && route === "/release") return { agent, does: "releases", resource }
  if (method === "POST" && route === "/renew") return { agent, does: "renews", resource }
  if (method === "GET" && route.startsWith("/wait")) return { agent: "", does: "who waits?", resource }
  if (method === "DELETE" && route.startsWith("/wait")) return { agent: bareName(/authorization:\s*\S+\s+(\S+)/i.exec(move.request)?.[1] ?? ""), does: "leaves the queue of", resource }
  if (method === "GET" && route.startsWith("/agents/")) return { agent: bareName(decoded(route.slice("/agents/".length))), does: "how does it stand?", resource: "" }
  return { agent: "", does: line.slice(0, 40) || "an empty request", resource: "" }
}

function decoded(text: string): string {
  try {
    return decodeURIComponent(text)
  } catch {
    return text
  }
}

/** A piece of a sentence: plain words, or what has a place of its own. */
export type Told = string | { agent: string } | { resource: string }

const actions: Record<string, (entry: Entry) => Told[]> = {
  grant: (e) => [holder(e), " is granted ", resource(e), `, fence ${e.fence}`],
  renew: (e) => [holder(e), " renews ", resource(e)],
  release: (e) => [holder(e), " releases ", resource(e), `, trust ${e.trust}`],
  expire: (e) => ["the lease of ", holder(e), " on ", resource(e), ` runs out, trust ${e.trust}`],
  force: (e) => [actor(e), " takes ", resource(e), " away from ", holder(e)],
  end: (e) => ["the lease of ", holder(e), " on ", resource(e), " is ended"],
  transfer: (e) => [actor(e), " hands ", resource(e), " over to ", holder(e), `, fence ${e.fence}`],
  queue: (e) => [waiter(e), " takes a place for ", resource(e)],
  unqueue: (e) => [waiter(e), " gives its place for ", resource(e), " up"],
  reserve: (e) => [resource(e), " is kept for ", waiter(e)],
  lapse: (e) => ["the place of ", waiter(e), " for ", resource(e), " lapses"],
  deadlock: (e) => [actor(e), " would close a circle at ", resource(e)],
}

const actor = (e: Entry) => ({ agent: bareName(e.actorDid) })
const holder = (e: Entry) => ({ agent: bareName(e.holder ?? "") })
const waiter = (e: Entry) => ({ agent: bareName(e.waiter?.actorDid ?? "") })
const resource = (e: Entry) => ({ resource: e.resource })

/** A transition as the pieces of a sentence. */
export function tell(entry: Entry): Told[] {
  return actions[entry.action]?.(entry) ?? [`${entry.action} of `, resource(entry)]
}

/** A transition as a sentence. */
export function sentence(entry: Entry): string {
  return tell(entry)
    .map((part) => (typeof part === "string" ? part : "agent" in part ? part.agent : part.resource))
    .join("")
}
