/**
 * Times every traced operation by its outcome, and passes it on to the exporter of traces, if there is one.
 */
import { isAppError } from '../../lib/app-error.ts'
import { monotonicMs } from '../../lib/clock.ts'
import type { Family, Histogram, Measures } from '../../lib/measures.ts'
import type { TraceAttributes, Tracer } from '../../lib/tracer.ts'

export class OperationTracer implements Tracer {
  readonly #durations: Family<Histogram>
  readonly #spans: Tracer | undefined

  constructor(measures: Measures, spans: Tracer | undefined) {
    this.#spans = spans
    this.#durations = measures.histogram(
      'warren_operation_seconds',
      'How long operations took, and how they ended: ok, or the code of the failure.',
      ['operation', 'outcome'],
    )
  }

  async trace<T>(operation: string, attributes: TraceAttributes, work: () => Promise<T>): Promise<T> {
    const startedAt = monotonicMs()
    let outcome = 'ok'
    try {
      return await (this.#spans ? this.#spans.trace(operation, attributes, work) : work())
    } catch (error) {
      outcome = isAppError(error) ? error.code : 'internal'
      throw error
    } finally {
      this.#durations.of(operation, outcome).observe((monotonicMs() - startedAt) / 1000)
    }
  }
}
