import { expect, test } from "vitest"
import { SseParser, type SseItem } from "../src/lib/sse"

const stream = ": hello\nretry: 5000\n\nid: 1\nevent: a\ndata: one\n\ndata:two\r\ndata: lines\r\n\r\n: beat\n\ndata: three\rid: 3\r\r"
const want: SseItem[] = [
  { kind: "retry", ms: 5000 },
  { kind: "data", data: "one" },
  { kind: "data", data: "two\nlines" },
  { kind: "data", data: "three" },
]

test("a stream means the same wherever it is cut in two", () => {
  for (let cut = 0; cut <= stream.length; cut++) {
    const parser = new SseParser()
    expect([...parser.push(stream.slice(0, cut)), ...parser.push(stream.slice(cut))], `cut at ${cut}`).toEqual(want)
  }
})

test("a stream means the same one character at a time", () => {
  const parser = new SseParser()
  expect([...stream].flatMap((character) => parser.push(character))).toEqual(want)
})

test("an event that was not ended by an empty line is not given out", () => {
  expect(new SseParser().push("data: half\n")).toEqual([])
})
