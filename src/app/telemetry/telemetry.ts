/** The telemetry of the process: metrics always, traces if the operator wants them. */
import { systemClock } from '../../lib/clock.ts'
import type { Log } from '../../lib/log.ts'
import { Measures } from '../../lib/measures.ts'
import type { Tracer } from '../../lib/tracer.ts'
import { wantsTraces } from '../config/config.ts'
import type { Closers } from '../process/shutdown.ts'
import { version } from '../project/version.ts'
import { OperationTracer } from './operation-tracer.ts'
import { RecentCreates } from './recent-creates.ts'

export type Telemetry = { measures: Measures; tracer: Tracer; creates: RecentCreates }

export async function openTelemetry(log: Log, closers: Closers): Promise<Telemetry> {
  const measures = new Measures()
  const creates = new RecentCreates(
    new OperationTracer(measures, await openTraces(log, closers)),
    systemClock,
  )
  return { measures, tracer: creates, creates }
}

/** Loads the library only if it is used. */
async function openTraces(log: Log, closers: Closers): Promise<Tracer | undefined> {
  if (!wantsTraces()) return undefined
  const { openSpans } = await import('./opentelemetry.ts')
  const spans = openSpans(version, log)
  closers.add('the traces', () => spans.close())
  return spans
}

/** Loads prom-client at the first request for metrics; until then nothing watches the event loop. */
export function createRenderMetrics(
  measures: Measures,
  log: Log,
): () => Promise<{ contentType: string; text: string }> {
  let render: Promise<() => Promise<{ contentType: string; text: string }>> | undefined
  return async () => {
    render ??= import('./prometheus.ts').then(({ createPrometheus }) => createPrometheus(measures, log))
    return (await render)()
  }
}
