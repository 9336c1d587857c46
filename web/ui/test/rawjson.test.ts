import { expect, test } from "vitest"
import { rawItems, rawMembers } from "../src/lib/rawjson"
import { random } from "./random"

test("values stay as they were spelled", () => {
  const members = rawMembers(String.raw`{"a": 1.0e5 , "b" :"x\"],}\\","c\u003c":{"d":[1,{"e":"}"}]},"f":[],"g":{}}`)
  expect([...members]).toEqual([
    ["a", "1.0e5"],
    ["b", String.raw`"x\"],}\\"`],
    ["c<", `{"d":[1,{"e":"}"}]}`],
    ["f", "[]"],
    ["g", "{}"],
  ])
  expect(rawItems(`[1,"a,b",[2,3], {"x":1} ]`)).toEqual(["1", '"a,b"', "[2,3]", '{"x":1}'])
  expect([rawItems("[]"), rawItems(" [ ] "), [...rawMembers("{}")]]).toEqual([[], [], []])
})

test("any value is taken apart as JSON.parse has it", () => {
  const seed = Date.now() % 1_000_000
  const pick = random(seed)
  const text = () => Array.from({ length: pick(6) }, () => ['"', "\\", ",", "]", "}", "{", "[", ":", "é", "\n", "a"][pick(11)]).join("")
  const value = (depth: number): unknown => {
    const shape = pick(depth > 0 ? 5 : 3)
    if (shape === 3) return Array.from({ length: pick(4) }, () => value(depth - 1))
    if (shape === 4) return Object.fromEntries(Array.from({ length: pick(4) }, (_, i) => [`${i}x${text()}`, value(depth - 1)]))
    return [text(), pick(1000) / 7, null][shape]
  }
  for (let i = 0; i < 500; i++) {
    const list = Array.from({ length: pick(4) }, () => value(3))
    const object = Object.fromEntries(list.map((item, i) => [`k${i}${text()}`, item]))
    const spaces = pick(3)
    expect(rawItems(JSON.stringify(list, null, spaces)).map((item) => JSON.parse(item)), `seed ${seed}`).toEqual(list)
    expect(Object.fromEntries([...rawMembers(JSON.stringify(object, null, spaces))].map(([name, raw]) => [name, JSON.parse(raw)])), `seed ${seed}`).toEqual(object)
  }
})
