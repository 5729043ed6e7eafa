/**
 * Metrics of this process. They are plain numbers, so that counting costs a hot path next to nothing; `/metrics` reads
 * them. Labels are constants of this code or members of closed lists. A text that a client chooses must not become a label,
 * because the number of series would have no bound.
 */

class Counter {
  value = 0

  add(amount = 1): void {
    this.value += amount
  }
}

export class Histogram {
  /** The upper bounds of all buckets but the last, which has none. */
  readonly bounds: readonly number[]
  /** The number of values in each bucket, without those of the buckets before it. */
  readonly counts: Float64Array
  sum = 0

  constructor(bounds: readonly number[]) {
    this.bounds = bounds
    this.counts = new Float64Array(bounds.length + 1)
  }

  observe(value: number): void {
    const { bounds, counts } = this
    let at = 0
    while (at < bounds.length && value > bounds[at]!) at++
    counts[at]!++
    this.sum += value
  }
}

/** For waits from a millisecond to minutes, in seconds. */
const durationBounds = [
  ...[0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5],
  ...[1, 2.5, 5, 10, 30, 60, 300],
]

/** All metrics of one name, distinguished by the values of their labels. */
export class Family<Figure> {
  readonly name: string
  readonly help: string
  readonly labelNames: readonly string[]
  readonly #make: () => Figure
  readonly #series = new Map<string, { labels: readonly string[]; figure: Figure }>()

  constructor(name: string, help: string, labelNames: readonly string[], make: () => Figure) {
    this.name = name
    this.help = help
    this.labelNames = labelNames
    this.#make = make
  }

  /** Takes the values in the order of the label names. A hot path should store the result. */
  of(...labels: string[]): Figure {
    const key = labels.join('\n')
    const known = this.#series.get(key)
    if (known) return known.figure
    const figure = this.#make()
    this.#series.set(key, { labels, figure })
    return figure
  }

  all(): { labels: readonly string[]; figure: Figure }[] {
    return [...this.#series.values()]
  }
}

/** A metric that is read only when somebody asks for it. */
export type Gauge = {
  name: string
  help: string
  labelNames: readonly string[]
  read(): Promise<readonly GaugeValue[]> | readonly GaugeValue[]
}

export type GaugeValue = { labels: readonly string[]; value: number }

export class Measures {
  readonly counters: Family<Counter>[] = []
  readonly histograms: Family<Histogram>[] = []
  readonly gauges: Gauge[] = []

  /** The name ends with `_total`. */
  counter(name: string, help: string, labelNames: readonly string[] = []): Family<Counter> {
    const family = new Family(name, help, labelNames, () => new Counter())
    this.counters.push(family)
    return family
  }

  /** Counts durations in seconds; the name ends with `_seconds`. */
  histogram(name: string, help: string, labelNames: readonly string[] = []): Family<Histogram> {
    const family = new Family(name, help, labelNames, () => new Histogram(durationBounds))
    this.histograms.push(family)
    return family
  }

  gauge(gauge: Gauge): void {
    this.gauges.push(gauge)
  }
}
