/** A reporter of node:test that writes one JSON object: how many passed, failed, were skipped, and which failed. */
import type { TestEvent } from 'node:test/reporters'
import type { Counts } from './jobs.ts'

export default async function* countingReporter(events: AsyncIterable<TestEvent>): AsyncGenerator<string> {
  const counts: Counts = { passed: 0, failed: 0, skipped: 0, failures: [] }
  const path: string[] = []
  for await (const { type, data } of events) {
    if (type === 'test:start') path[data.nesting] = data.name
    if (type === 'test:fail' && !failedInside(data.details.error)) {
      const name = [...path.slice(0, data.nesting), data.name].join(' › ')
      counts.failures.push({ name, why: reasonOf(data.details.error) })
    }
    if (type !== 'test:pass' && type !== 'test:fail') continue
    if (data.details.type === 'suite') continue
    if (data.skip !== undefined) counts.skipped += 1
    else if (type === 'test:pass') counts.passed += 1
    else counts.failed += 1
  }
  yield JSON.stringify(counts)
}

/** The stack of what was thrown, which begins with its message; node's own error around it says nothing. */
function reasonOf(error: Error): string {
  const cause = error.cause ?? error
  return cause instanceof Error ? (cause.stack ?? cause.message) : String(cause)
}

/** A suite that failed only because one of its tests did. */
const failedInside = (error: unknown) =>
  (error as { failureType?: string } | undefined)?.failureType === 'subtestsFailed'
