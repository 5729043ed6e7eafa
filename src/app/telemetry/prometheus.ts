/**
 * The metrics of this process in the text format of Prometheus, together with prom-client's metrics of Node.
 */
import { collectDefaultMetrics, type Metric, Registry } from 'prom-client'
import { withDeadline } from '../../lib/deadline.ts'
import type { Log } from '../../lib/log.ts'
import type { Family, Gauge, GaugeValue, Histogram, Measures } from '../../lib/measures.ts'

/** Prometheus waits 10 s for an answer unless it is told otherwise. */
const gaugeWithinMs = 5000

export type RenderedMetrics = { contentType: string; text: string }

type Value = { labels: Record<string, string | number>; value: number; metricName?: string }

export function createPrometheus(measures: Measures, log: Log): () => Promise<RenderedMetrics> {
  const registry = new Registry()
  // Delays of the event loop, memory, CPU, garbage collection, open handles.
  collectDefaultMetrics({ register: registry, eventLoopMonitoringPrecision: 20 })
  const add = (name: string, help: string, type: string, read: () => Promise<Value[]> | Value[]) => {
    const get = async () => ({ name, help, type, aggregator: 'sum', values: await read() })
    // A registry needs only the name and the values of a metric; these are ours, not prom-client's.
    registry.registerMetric({ name, get } as unknown as Metric)
  }
  for (const family of measures.counters) {
    add(family.name, family.help, 'counter', () =>
      family.all().map(({ labels, figure }) => ({ labels: named(family, labels), value: figure.value })),
    )
  }
  for (const family of measures.histograms) {
    add(family.name, family.help, 'histogram', () => histogramValues(family))
  }
  for (const gauge of measures.gauges) {
    add(gauge.name, gauge.help, 'gauge', async () =>
      (await readGauge(gauge, log)).map(({ labels, value }) => ({ labels: named(gauge, labels), value })),
    )
  }
  return async () => ({ contentType: registry.contentType, text: await registry.metrics() })
}

/** A gauge that cannot be read has no values in this answer: while the database is away, the other metrics matter. */
async function readGauge(gauge: Gauge, log: Log): Promise<readonly GaugeValue[]> {
  try {
    return await withDeadline(gaugeWithinMs, `${gauge.name} was not read in time`, async () => gauge.read())
  } catch (error) {
    log.debug({ err: error }, `The metric ${gauge.name} could not be read.`)
    return []
  }
}

function histogramValues(family: Family<Histogram>): Value[] {
  return family.all().flatMap(({ labels, figure }) => {
    const common = named(family, labels)
    let count = 0
    const buckets = [...figure.counts].map((inBucket, index) => {
      count += inBucket
      const le = figure.bounds[index] ?? '+Inf'
      return { labels: { le, ...common }, value: count, metricName: `${family.name}_bucket` }
    })
    return [
      ...buckets,
      { labels: common, value: figure.sum, metricName: `${family.name}_sum` },
      { labels: common, value: count, metricName: `${family.name}_count` },
    ]
  })
}

function named({ labelNames }: Pick<Gauge, 'labelNames'>, values: readonly string[]): Record<string, string> {
  return Object.fromEntries(labelNames.map((name, index) => [name, values[index] ?? '']))
}
