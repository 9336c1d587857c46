// The lease kernel in this browser: Go compiled to WebAssembly, loaded with the page and never asked over a network.

import "../../wasm/wasm_exec.js"
import wasmUrl from "../../wasm/playground.wasm?url"

/** One thing that happens in a scene: a request, or else time that passes. */
export interface Move {
  note?: string
  request?: string
  passMs?: number
}

export interface Scene {
  about: string
  moves: Move[]
}

export type Tone = "yes" | "no" | "waits" | "neutral"

export interface Verdict {
  word: string
  tone: Tone
  text: string
}

/** One transition, as GET /ledger gives it. */
export interface Entry {
  seq: string
  action: string
  resource: string
  actorDid: string
  holder?: string
  fence?: number
  waiter?: { actorDid: string }
  trust?: number
}

export interface Holder {
  agent: string
  mode: "exclusive" | "shared"
  fence: number
  leftMs: number
  ttlMs: number
}

export interface Place {
  agent: string
  mode: "exclusive" | "shared"
  reserved: boolean
  /** How long the place or the reservation lives; -1: as long as its long poll. */
  leftMs: number
}

export interface ResourceView {
  resource: string
  holders: Holder[]
  queue: Place[]
}

export interface Wait {
  from: string
  to: string
  over: string
  circle?: boolean
  refused?: boolean
}

export interface World {
  clockMs: number
  now: string
  resources: ResourceView[]
  agents: { agent: string; trust: number; holds: number; waits: number }[]
  waits: Wait[]
}

export interface Answered {
  /** Of HTTP; 0 where time passed, or while a long poll waits. */
  status: number
  answer: string
  verdict: Verdict
}

export interface Turn extends Answered {
  happened: Entry[]
  late: (Answered & { move: number })[]
  world: World
}

export interface Engine {
  /** Makes a scene of a story file. */
  scene(story: string): Scene
  /** Plays moves from the beginning. The same moves always come to the same turns. */
  play(moves: Move[]): Turn[]
}

declare global {
  var Go: new () => { importObject: WebAssembly.Imports; run(instance: WebAssembly.Instance): Promise<void> }
  var cowritePlayground: { scene(story: string): string; play(moves: string): string } | undefined
}

function understood<T>(text: string): T {
  const value = JSON.parse(text) as T | { failed: string }
  if (typeof value === "object" && value !== null && "failed" in value) throw new Error(value.failed)
  return value as T
}

/** Loads the kernel. Nothing is asked for afterwards. */
export async function loadEngine(): Promise<Engine> {
  const go = new Go()
  const { instance } = await WebAssembly.instantiateStreaming(fetch(wasmUrl), go.importObject)
  void go.run(instance) // runs until it waits for calls, and lives as long as the page
  const kernel = globalThis.cowritePlayground
  if (!kernel) throw new Error("the lease kernel did not start")
  return {
    scene: (story) => understood<Scene>(kernel.scene(story)),
    play: (moves) => understood<Turn[]>(kernel.play(JSON.stringify(moves))),
  }
}
