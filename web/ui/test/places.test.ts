import { afterEach, beforeEach, expect, test, vi } from "vitest"
import { QueuePlaces } from "../src/lib/places"
import type { DocumentRef, SectionId } from "../src/lib/wire"

const goals = "goals" as SectionId

function serve(answer: (ask: number) => Response | Promise<Response>) {
  const asked: string[] = []
  vi.stubGlobal("fetch", async (url: string, { method }: { method: string }) => {
    asked.push(`${method} ${url.slice(url.indexOf("/sections"))}`)
    return method === "DELETE" ? Response.json({ left: true }) : answer(asked.filter((line) => line.startsWith("POST")).length)
  })
  const told: string[] = []
  const places = new QueuePlaces("plan" as DocumentRef, {
    granted: (id) => told.push(`granted ${id}`),
    refused: (id, error) => told.push(`refused ${id}: ${error.code}`),
  })
  return { places, told, asked, asks: () => asked.filter((line) => line.startsWith("POST")).length }
}

const refusal = (error: string, status = 409) => Response.json({ error, message: error }, { status })

beforeEach(() => void vi.useFakeTimers())
afterEach(() => {
  vi.useRealTimers()
  vi.unstubAllGlobals()
})

test("a place is asked for until the turn comes, also through an outage, and then no more", async () => {
  const { places, told, asks } = serve((ask) => {
    if (ask === 2) throw new TypeError("unreachable")
    if (ask === 3) return refusal("SHUTTING_DOWN", 503)
    return ask < 4 ? refusal("SECTION_LEASED") : Response.json({ leaseId: "l" })
  })
  await places.take(goals)
  await vi.advanceTimersByTimeAsync(59_000)
  expect([asks(), told]).toEqual([3, []])
  await vi.advanceTimersByTimeAsync(600_000)
  expect([asks(), told]).toEqual([4, ["granted goals"]])
})

test("what has become free is asked for at once, once, and only by one who waits", async () => {
  const { places, told, asks } = serve((ask) => (ask === 1 ? refusal("SECTION_LEASED") : Response.json({ leaseId: "l" })))
  await places.ask(goals)
  expect(asks()).toBe(0)
  await places.take(goals)
  await Promise.all([places.ask(goals), places.ask(goals)])
  expect([asks(), told]).toEqual([2, ["granted goals"]])
})

test.each(["QUEUE_FULL", "DEADLOCK", "FORBIDDEN"])("%s ends the asking and is told", async (code) => {
  const { places, told, asks } = serve(() => refusal(code))
  await places.take(goals)
  await vi.advanceTimersByTimeAsync(600_000)
  expect([asks(), told]).toEqual([1, [`refused goals: ${code}`]])
})

test("who leaves the queue, or the page, asks no more", async () => {
  const { places, asked, asks } = serve(() => refusal("SECTION_LEASED"))
  await places.take(goals)
  await places.leave(goals)
  await vi.advanceTimersByTimeAsync(600_000)
  expect(asked).toEqual(["POST /sections/goals/lease", "DELETE /sections/goals/lease/queue"])
  await places.take(goals)
  places.close()
  await vi.advanceTimersByTimeAsync(600_000)
  expect(asks()).toBe(2)
})
