import { expect, test } from "vitest"
import type { Wait } from "../src/playground/engine"
import { inWords, layout, shortened } from "../src/playground/graph"
import { formatClock, sentence, summarize } from "../src/playground/summary"

const wait = (from: string, to: string, over = "x", more: Partial<Wait> = {}): Wait => ({ from, to, over, ...more })
const heights = (waits: Wait[]) => layout(waits).map((part) => Object.fromEntries(part.nodes.map(({ agent, y }) => [agent, y])))

test("who waits stands below whom it waits for, through any number of steps", () => {
  const [at] = heights([wait("d", "b"), wait("d", "c"), wait("c", "b"), wait("b", "a")])
  expect(at!["a"]).toBeLessThan(at!["b"]!)
  expect(at!["b"]).toBeLessThan(at!["c"]!)
  expect(at!["c"]).toBeLessThan(at!["d"]!)
})

test("parts that have nothing to do with each other are drawn apart, also when a late edge joins two", () => {
  expect(heights([wait("a", "b"), wait("c", "d")]).map((at) => Object.keys(at).sort())).toEqual([["a", "b"], ["c", "d"]])
  expect(heights([wait("a", "b"), wait("c", "d"), wait("b", "c")]).map((at) => Object.keys(at).sort())).toEqual([["a", "b", "c", "d"]])
})

test("a refused circle is drawn without going round for ever, and its two edges do not cover each other", () => {
  const [part] = layout([wait("a", "b", "y", { circle: true }), wait("b", "a", "x", { circle: true, refused: true })])
  expect(part!.edges.map((edge) => edge.x).toSorted((a, b) => a - b)[1]).toBeGreaterThan(64)
})

test("everything drawn is inside the picture", () => {
  const waits = [wait("a", "b", "lock:deploy/production/eu-central-1"), wait("c", "b"), wait("b", "a", "a/long/name/of/a/file.txt", { refused: true })]
  for (const { nodes, edges, box } of layout(waits)) {
    const [left, top, width, height] = box
    for (const { x, y } of [...nodes, ...edges]) {
      expect(x).toBeGreaterThan(left)
      expect(x).toBeLessThan(left + width)
      expect(y).toBeGreaterThan(top)
      expect(y).toBeLessThan(top + height)
    }
  }
  expect(shortened("lock:deploy/production", 8)).toBe("lock:de…")
})

test("the graph in words", () => {
  expect(inWords([])).toBe("Nobody waits for anybody.")
  expect(inWords([wait("a", "b", "y"), wait("b", "a", "x", { refused: true })])).toBe("a waits for b over y. b would wait for a over x, which was refused.")
})

test.each([
  ['POST /api/v1/acp/coordination/lease\n\n{"resource":"x","actorDid":"did:cowrite:a"}', { agent: "a", does: "asks for", resource: "x" }],
  ['POST /api/v1/acp/coordination/lease\n\n{"resource":"x","actorDid":"a","operation":"read"}', { agent: "a", does: "asks to read", resource: "x" }],
  ['POST /api/v1/acp/coordination/release\n\n{"resource":"x","actorDid":"a"}', { agent: "a", does: "releases", resource: "x" }],
  ["GET /api/v1/acp/coordination/wait?resource=lock:a%2Fb", { agent: "", does: "who waits?", resource: "lock:a/b" }],
  ["DELETE /api/v1/acp/coordination/wait?resource=x\nAuthorization: Bearer b", { agent: "b", does: "leaves the queue of", resource: "x" }],
  ["GET /api/v1/acp/coordination/agents/did:cowrite:a", { agent: "a", does: "how does it stand?", resource: "" }],
  ['POST /api/v1/acp/coordination/lease\n\n{"resource":', { agent: "", does: "asks for", resource: "" }],
  ["GET /api/v1/acp/coordination/agents/%", { agent: "%", does: "how does it stand?", resource: "" }],
  ["\n", { agent: "", does: "an empty request", resource: "" }],
])("%j is told in a line", (request, told) => expect(summarize({ request })).toEqual(told))

test("times are told as people read them", () => {
  expect(summarize({ passMs: 20_000 }).does).toBe("20s pass")
  expect([0, 9_999, 20_000, 61_500].map(formatClock)).toEqual(["0:00", "0:09.999", "0:20", "1:01.500"])
})

test("a transition that has no sentence of its own is named", () => {
  const entry = { seq: "1", resource: "x", actorDid: "did:cowrite:a", holder: "did:cowrite:a", fence: 3 }
  expect(sentence({ ...entry, action: "grant" })).toBe("a is granted x, fence 3")
  expect(sentence({ ...entry, action: "transfer", actorDid: "did:cowrite:b" })).toBe("b hands x over to a, fence 3")
  expect(sentence({ ...entry, action: "novel" })).toBe("novel of x")
})
