/**
 * Positions. JavaScript counts a string in UTF-16 units, the server in Unicode code points; they differ from the first
 * character beyond U+FFFF on. Everything that this package takes and gives counts UTF-16 units; here it is converted.
 */

/** Replaces delete units of a text from at on by insert. Positions of several count in the text as it was before any. */
export interface TextOp {
  at: number;
  delete?: number;
  insert?: string;
}

const isHigh = (unit: number) => unit >= 0xd800 && unit <= 0xdbff;
const isLow = (unit: number) => unit >= 0xdc00 && unit <= 0xdfff;

/** Whether a character that takes two units begins here. A surrogate that stands alone is a character by itself. */
function isPair(text: string, at: number): boolean {
  return isHigh(text.charCodeAt(at)) && isLow(text.charCodeAt(at + 1));
}

/** Converts positions in one text, given in rising order, in one pass over it. */
class Ruler {
  private units = 0;
  private points = 0;

  constructor(private readonly text: string) {}

  /** The code points before a position in units. A position inside of a character, or beyond the text, is a RangeError. */
  toPoints(units: number): number {
    if (!Number.isInteger(units) || units < this.units || units > this.text.length) {
      throw new RangeError(`position ${units} is not in the text of ${this.text.length} units, or is not in order`);
    }
    while (this.units < units) this.step();
    if (this.units > units) throw new RangeError(`position ${units} is inside of a character`);
    return this.points;
  }

  /** The units before a position in code points. One beyond the text is a RangeError. */
  toUnits(points: number): number {
    if (!Number.isInteger(points) || points < this.points) throw new RangeError(`position ${points} is not in order`);
    while (this.points < points) {
      if (this.units >= this.text.length) throw new RangeError(`position ${points} is behind the end of the text`);
      this.step();
    }
    return this.units;
  }

  private step(): void {
    this.units += isPair(this.text, this.units) ? 2 : 1;
    this.points++;
  }
}

/** The number of code points before a position in UTF-16 units. */
export function toCodePoints(text: string, units: number): number {
  return new Ruler(text).toPoints(units);
}

/** The number of UTF-16 units before a position in code points. */
export function toUnits(text: string, points: number): number {
  return new Ruler(text).toUnits(points);
}

const inOrder = (ops: readonly TextOp[]) => [...ops].sort((a, b) => a.at - b.at || (a.delete ?? 0) - (b.delete ?? 0));

/** Operations on a text, from units to code points. They come back in order. */
export function opsToCodePoints(text: string, ops: readonly TextOp[]): TextOp[] {
  return convert(ops, new Ruler(text), (ruler, at) => ruler.toPoints(at));
}

/** Operations on a text, from code points to units. They come back in order. */
export function opsToUnits(text: string, ops: readonly TextOp[]): TextOp[] {
  return convert(ops, new Ruler(text), (ruler, at) => ruler.toUnits(at));
}

function convert(ops: readonly TextOp[], ruler: Ruler, to: (ruler: Ruler, at: number) => number): TextOp[] {
  return inOrder(ops).map((op) => {
    const at = to(ruler, op.at);
    const end = to(ruler, op.at + (op.delete ?? 0));
    return { at, delete: end - at, insert: op.insert ?? "" };
  });
}

/** Does operations, in units and apart, to a text. Any that lies outside of it or overlaps another is a RangeError. */
export function applyOps(text: string, ops: readonly TextOp[]): string {
  let out = "";
  let done = 0;
  for (const op of inOrder(ops)) {
    const end = op.at + (op.delete ?? 0);
    if (op.at < done || end < op.at || end > text.length) throw new RangeError(`operation at ${op.at} overlaps another, or is outside of the text`);
    out += text.slice(done, op.at) + (op.insert ?? "");
    done = end;
  }
  return out + text.slice(done);
}
