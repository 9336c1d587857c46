import { afterEach, beforeEach, expect, test, vi } from "vitest"
import { LeaseBoard } from "../src/lib/leases.svelte"
import type { Agent, DocumentRef, SectionId } from "../src/lib/wire"

const intro = "intro" as SectionId
const goals = "goals" as SectionId

function serve(leases: { sectionId: SectionId; holder: string; expiresInMs: number }[]) {
  vi.stubGlobal("fetch", async () => Response.json({ leases, queues: [{ sectionId: goals, waiters: [{ agent: "agent-gamma", position: 1, since: "" }] }] }))
}

beforeEach(() => void vi.useFakeTimers({ toFake: ["setTimeout", "clearTimeout", "performance", "Date"] }))
afterEach(() => {
  vi.useRealTimers()
  vi.unstubAllGlobals()
})

test("a lease is there until its very end, whatever the wall clock says", async () => {
  serve([
    { sectionId: intro, holder: "agent-alpha", expiresInMs: 2_000 },
    { sectionId: goals, holder: "agent-beta", expiresInMs: 5_000 },
  ])
  const board = new LeaseBoard("plan" as DocumentRef)
  await board.refresh()
  expect(board.heldBy(intro, "agent-alpha" as Agent)).toMatchObject({ holder: "agent-alpha" })
  expect(board.heldBy(intro, "agent-beta" as Agent)).toBeUndefined()

  vi.setSystemTime(new Date("2099-01-01"))
  vi.advanceTimersByTime(1_999)
  expect(board.of(intro).leases).toHaveLength(1)
  vi.advanceTimersByTime(1)
  expect(board.of(intro).leases).toHaveLength(0)

  vi.advanceTimersByTime(3_000)
  expect(board.of(goals).leases).toHaveLength(0)
  expect(board.of(goals).waiters).toHaveLength(1)
  board.close()
})

test("changes that come in while the list is read are read once more, and not once each", async () => {
  let calls = 0
  vi.stubGlobal("fetch", async () => (calls++, Response.json({ leases: [], queues: [] })))
  const board = new LeaseBoard("plan" as DocumentRef)
  const first = board.refresh()
  for (let i = 0; i < 50; i++) void board.refresh()
  await first
  expect(calls).toBe(2)
  board.close()
})
