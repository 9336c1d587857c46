import assert from "node:assert/strict";
import test from "node:test";
import { applyOps, opsToCodePoints, opsToUnits, toCodePoints, toUnits } from "cowrite";
import { newSeed, random } from "./lib.mjs";

test("positions behind a character beyond U+FFFF differ", () => {
  const text = "a😀b𝄞c";
  assert.equal(toCodePoints(text, 3), 2);
  assert.equal(toUnits(text, 2), 3);
  assert.equal(toCodePoints(text, text.length), 5);
  assert.equal(toUnits(text, 5), text.length);
  assert.throws(() => toCodePoints(text, 2), RangeError, "inside of a character");
  assert.throws(() => toCodePoints(text, 8), RangeError);
  assert.throws(() => toUnits(text, 6), RangeError);
  assert.throws(() => toUnits(text, 1.5), RangeError);
});

test("a surrogate that stands alone is a character", () => {
  const text = "\ud83d-\ude00😀";
  assert.equal(toCodePoints(text, 1), 1);
  assert.equal(toCodePoints(text, 3), 3);
  assert.equal(toUnits(text, 4), 5);
});

test("operations are converted there and back, in any order", () => {
  const text = "😀😀 two";
  const ops = [{ at: 4, delete: 4, insert: "!" }, { at: 0, delete: 2, insert: "🎉🎉" }];
  const points = opsToCodePoints(text, ops);
  assert.deepEqual(points, [{ at: 0, delete: 1, insert: "🎉🎉" }, { at: 2, delete: 4, insert: "!" }]);
  assert.deepEqual(opsToUnits(text, points), [{ at: 0, delete: 2, insert: "🎉🎉" }, { at: 4, delete: 4, insert: "!" }]);
  assert.equal(applyOps(text, ops), "🎉🎉😀!");
});

test("operations that overlap or lie outside are refused", () => {
  for (const ops of [[{ at: 0, delete: 3 }, { at: 2 }], [{ at: 6 }], [{ at: -1 }], [{ at: 3, delete: -1 }], [{ at: 0, delete: 9 }]]) {
    assert.throws(() => applyOps("hello", ops), RangeError, JSON.stringify(ops));
  }
});

test("conversion agrees with arrays of characters", (t) => {
  const chance = random(newSeed(t));
  const pick = (n) => Math.floor(chance() * n);
  const alphabet = ["a", "é", "\n", "€", "😀", "𝄞", "👩‍🚀", "\ud800", "漢"];
  for (let round = 0; round < 2000; round++) {
    const text = Array.from({ length: pick(20) }, () => alphabet[pick(alphabet.length)]).join("");
    const characters = [...text];
    const from = pick(characters.length + 1);
    const to = from + pick(characters.length - from + 1);
    const units = (n) => characters.slice(0, n).join("").length;
    assert.equal(toUnits(text, from), units(from));
    assert.equal(toCodePoints(text, units(to)), to);
    const [op] = opsToUnits(text, [{ at: from, delete: to - from, insert: "x" }]);
    assert.ok(op);
    assert.equal(applyOps(text, [op]), [...characters.slice(0, from), "x", ...characters.slice(to)].join(""));
  }
});
