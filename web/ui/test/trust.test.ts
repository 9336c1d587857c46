// @vitest-environment jsdom
import { expect, test } from "vitest"
import { calledOf, hrefOf } from "../src/coordination/places"
import { stepsOf, trustOf } from "../src/coordination/trust"

const entry = (action: string, agent: string, trust?: number) => ({
  seq: "1",
  at: "2026-04-16T03:00:00.000Z",
  action,
  resource: "x",
  actorDid: "did:cowrite:system",
  holder: `did:cowrite:${agent}`,
  ...(trust === undefined ? {} : { trust }),
})

test("the ledger tells the trust of each agent after each lease that ended", () => {
  const entries = [entry("grant", "a"), entry("release", "a", 50.5), entry("expire", "b", 45), entry("release", "a", 51)]
  expect([...trustOf(entries)]).toEqual([
    ["a", [50.5, 51]],
    ["b", [45]],
  ])
})

test("the line begins at the left, ends at the right, and stays in its box", () => {
  expect(stepsOf([50], 100, 30)).toBe("M0 15H100")
  expect(stepsOf([44, 56], 100, 30)).toBe("M0 30H50V0H100")
  expect(stepsOf([50, 20], 100, 30), "far down the scale is another").toBe("M0 15H50V30H100")
  expect(stepsOf([50], 100, 30, [100]), "and another point beside it moves no middle").toBe("M0 15H100")
})

test("a section has an address, and nothing else has", () => {
  expect(hrefOf("section:release-plan/goals-1")).toBe("/d/release-plan#s-goals-1")
  expect(calledOf("section:release-plan/goals-1")).toBe("release-plan/goals-1")
  for (const other of ["lock:a/b", "section:a", "section:a/b/c", 'section:a/" onclick=', "sections:a/b"]) {
    expect(hrefOf(other)).toBeUndefined()
    expect(calledOf(other)).toBe(other)
  }
})
