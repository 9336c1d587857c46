// Numbers and plurals as the reader's locale writes them.

const count = new Intl.NumberFormat()
const plurals = new Intl.PluralRules()
const sizes = (["byte", "kilobyte", "megabyte", "gigabyte"] as const).map(
  (unit) => new Intl.NumberFormat(undefined, { style: "unit", unit, unitDisplay: unit === "byte" ? "long" : "short", maximumSignificantDigits: 3 }),
)

/** "1,234" or "1.234". */
export function number(n: number): string {
  return count.format(n)
}

/** The form for a number, with the number in the place of #: plural(2, { one: "# event", other: "# events" }). */
export function plural(n: number, forms: { one: string; other: string }): string {
  return (plurals.select(n) === "one" ? forms.one : forms.other).replace("#", number(n))
}

/** "12.3 MB". A kilobyte has 1,000 bytes. */
export function bytes(n: number): string {
  const unit = Math.min(Math.floor(Math.log10(Math.max(n, 1)) / 3), sizes.length - 1)
  return sizes[unit]!.format(n / 1000 ** unit)
}
