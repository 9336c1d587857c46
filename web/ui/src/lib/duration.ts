// Lengths of time as the reader's locale writes them.

type Style = "long" | "short" | "narrow"
type Unit = "day" | "hour" | "minute" | "second" | "millisecond"

export class Durations {
  #formats = new Map<string, Intl.NumberFormat>()

  /** Of the browser's own locale, if none is given. */
  constructor(private readonly locale?: string) {}

  /** A number of one unit: "3 days". */
  of(n: number, unit: Unit, unitDisplay: Style = "short"): string {
    const key = `${unit} ${unitDisplay}`
    const format = this.#formats.get(key) ?? new Intl.NumberFormat(this.locale, { style: "unit", unit, unitDisplay, maximumFractionDigits: 3 })
    this.#formats.set(key, format)
    return format.format(n)
  }

  /** Milliseconds: less than a second as they are, others as ofSeconds has them. */
  ofMs(ms: number, style: Style = "short"): string {
    return ms > 0 && ms < 1000 ? this.of(ms, "millisecond", style) : this.ofSeconds(ms / 1000, style)
  }

  /** Seconds in at most two units that are neighbours: "48 sec", "2 min, 5.5 sec", "3 hr". */
  ofSeconds(seconds: number, style: Style = "short"): string {
    const [hours, minutes] = [Math.floor(seconds / 3600), Math.floor(seconds / 60) % 60]
    const parts: [number, Unit][] = hours ? [[hours, "hour"], [minutes, "minute"]] : [[minutes, "minute"], [seconds % 60, "second"]]
    const told = parts.filter(([n]) => n > 0).map(([n, unit]) => this.of(n, unit, style))
    return told.length ? new Intl.ListFormat(this.locale, { type: "unit", style }).format(told) : this.of(0, "second", style)
  }
}

export const durations = new Durations()
