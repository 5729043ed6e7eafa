/**
 * A reporter of node:test that writes one JSON object: for each file how many tests passed, failed and were
 * skipped, which failed, and how long they took.
 */
import { resolve } from 'node:path'
import type { TestEvent } from 'node:test/reporters'
import type { Counts } from './jobs.ts'

export type CountsOfFiles = Record<string, Counts & { ms: number }>

export default async function* countingReporter(events: AsyncIterable<TestEvent>): AsyncGenerator<string> {
  const files: CountsOfFiles = {}
  const path: string[] = []
  for await (const { type, data } of events) {
    if (type === 'test:start') path[data.nesting] = data.name
    if (type !== 'test:pass' && type !== 'test:fail') continue
    files[data.file ?? ''] ??= { passed: 0, failed: 0, skipped: 0, failures: [], ms: 0 }
    const counts = files[data.file ?? '']!
    if (data.nesting === 0) counts.ms += data.details.duration_ms
    if (type === 'test:fail' && !failedInside(data.details.error)) {
      const name = [...path.slice(0, data.nesting), data.name].join(' › ')
      counts.failures.push({ name, why: reasonOf(data.details.error) })
    }
    if (data.details.type === 'suite' || standsForFile(data)) continue
    if (data.skip !== undefined) counts.skipped += 1
    else if (type === 'test:pass') counts.passed += 1
    else counts.failed += 1
  }
  yield JSON.stringify(files)
}

/** In a shared process, Node reports a file without tests as one that passed. */
const standsForFile = ({ name, file }: { name: string; file?: string | undefined }) =>
  file !== undefined && resolve(name) === file

/** The stack of what was thrown, which begins with its message; node's own error around it says nothing. */
function reasonOf(error: Error): string {
  const cause = error.cause ?? error
  return cause instanceof Error ? (cause.stack ?? cause.message) : String(cause)
}

/** A suite that failed only because one of its tests did. */
const failedInside = (error: unknown) =>
  (error as { failureType?: string } | undefined)?.failureType === 'subtestsFailed'
