import { expect, test } from "vitest"
import { fromEditor, toEditor } from "../src/lib/lines"

test.each(["", "one\ntwo\n", "one\r\ntwo\r\n", "no end", "\r\n"])("what is not touched is saved as it was: %j", (text) => {
  expect(toEditor(text)).not.toContain("\r")
  expect(fromEditor(toEditor(text), text)).toBe(text)
})

test("new lines get the line end that the section has", () => {
  expect(fromEditor("one\nnew\ntwo\n", "one\r\ntwo\r\n")).toBe("one\r\nnew\r\ntwo\r\n")
  expect(fromEditor("one\nnew\n", "one\n")).toBe("one\nnew\n")
})
