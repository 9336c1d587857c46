import type { PeerId } from "@automerge/automerge-repo"
import { afterEach, beforeEach, expect, test, vi } from "vitest"
import { Adapter } from "../src/replica/adapter"

const { FakeSocket } = vi.hoisted(() => {
  const made: FakeSocket[] = []

  /** A socket whose far end is the test. */
  class FakeSocket extends EventTarget {
    static readonly CONNECTING = 0
    static readonly OPEN = 1
    static readonly CLOSING = 2
    static readonly CLOSED = 3
    static readonly made = made
    readyState: number = FakeSocket.CONNECTING
    sent = 0

    constructor() {
      super()
      made.push(this)
    }

    send(): void {
      this.sent++
    }

    close(): void {
      if (this.readyState < FakeSocket.CLOSING) this.readyState = FakeSocket.CLOSING
    }

    opens(): void {
      this.readyState = FakeSocket.OPEN
      this.dispatchEvent(new Event("open"))
    }

    ends(code: number): void {
      this.readyState = FakeSocket.CLOSED
      this.dispatchEvent(Object.assign(new Event("close"), { code }))
    }
  }
  return { FakeSocket }
})
vi.mock("isomorphic-ws", () => ({ default: FakeSocket }))

const minute = 60_000
const sockets = FakeSocket.made
let refused: number[]
let adapter: Adapter

beforeEach(() => {
  vi.useFakeTimers()
  vi.stubGlobal("WebSocket", FakeSocket)
  sockets.length = 0
  refused = []
  adapter = new Adapter("ws://server")
  adapter.refused = (code) => refused.push(code)
  adapter.connect("page" as PeerId)
})
afterEach(() => {
  adapter.end()
  vi.useRealTimers()
  vi.unstubAllGlobals()
})

test("a slow handshake is waited for, and its socket joined; one that takes a minute is given up", () => {
  vi.advanceTimersByTime(minute - 5_000)
  expect(sockets.length).toBe(1)
  sockets[0]!.opens()
  expect(sockets[0]!.sent).toBe(1)
  sockets[0]!.ends(1006)
  vi.advanceTimersByTime(5_000)
  expect(sockets.length).toBe(2)
  vi.advanceTimersByTime(2 * minute)
  expect(sockets.length).toBeGreaterThan(2)
  expect(sockets.filter(({ readyState }) => readyState === FakeSocket.CONNECTING), "at any time one is opened").toEqual([sockets.at(-1)])
})

test("a socket that was replaced, whether it was open or not, is closed and says nothing any more", () => {
  adapter.again()
  expect(sockets.map(({ readyState }) => readyState)).toEqual([FakeSocket.CLOSING, FakeSocket.CONNECTING])
  sockets[0]!.ends(4403)
  sockets[1]!.opens()
  adapter.again()
  sockets[1]!.ends(4401)
  expect(refused).toEqual([])
  sockets[2]!.ends(4403)
  expect(refused).toEqual([4403])
})

test("it comes back from every other end, also from a socket that was replaced while it was opened", () => {
  adapter.again()
  for (const code of [1006, 1013, 4408, 4500]) {
    const before = sockets.length
    sockets.at(-1)!.ends(code)
    vi.advanceTimersByTime(5_000)
    expect(sockets.length, `after ${code}`).toBe(before + 1)
    sockets.at(-1)!.opens()
  }
  expect(refused).toEqual([])
})

test("what has ended stays so", () => {
  sockets[0]!.opens()
  adapter.end()
  adapter.again()
  sockets[0]!.ends(1006)
  vi.advanceTimersByTime(minute)
  expect(sockets.length).toBe(1)
})
