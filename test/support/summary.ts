/** What a reader of the last lines of a test run needs: where the time went, what failed and why, the counts. */
import { type JobResult, maxFlaky, type Outcome } from './jobs.ts'

/** `idle` is the share of the machine's CPU time that nobody used meanwhile. */
export type Phase = { title: string; ms: number; idle: number }

const longestReason = 4000
const slowestShown = 15

export function summarize(phases: Phase[], { results, flaky }: Outcome): string {
  const slowest = results.toSorted((a, b) => b.ms - a.ms).slice(0, slowestShown)
  const time = [
    ...phases.map(({ title, ms, idle }) => `  ${seconds(ms)}  ${percent(idle)} idle  ${title}`),
    '\nSlowest files:',
    ...slowest.map(({ job, ms }) => `  ${seconds(ms)}  ${job.name}`),
  ]
  const failed = results.filter((result) => result.failed > 0)
  const sections = [
    ['Where the time went:', ...time],
    flaky.length > 0 ? ['Flaky (failed, and passed when run once more):', ...flaky.flatMap(failures)] : [],
    failed.length > 0 ? ['Failed:', ...failed.flatMap(failures)] : [],
  ]
  return sections
    .filter((lines) => lines.length > 0)
    .map((lines) => `\n${lines.join('\n')}\n`)
    .join('')
}

const percent = (share: number) => `${Math.round(100 * share)} %`.padStart(5)
const seconds = (ms: number) => `${(ms / 1000).toFixed(0).padStart(5)} s`

function failures({ job, failures }: JobResult): string[] {
  return failures.flatMap(({ name, why }) => [
    `  ${job.name}: ${name}`,
    ...(why ? [why.slice(0, longestReason).replaceAll(/^/gm, '    ')] : []),
  ])
}

export type Verdict = { good: boolean; reasons: string[]; lastLine: string }

/** With `everythingRequired` a skipped test counts as a failure: what CI proves must not depend on the machine. */
export function judge({ results, flaky }: Outcome, everythingRequired: boolean): Verdict {
  const sum = (name: 'passed' | 'failed' | 'skipped') =>
    results.reduce((total, counts) => total + counts[name], 0)
  const [passed, failed, skipped] = [sum('passed'), sum('failed'), sum('skipped')]
  const reasons = [
    ...(passed === 0 ? ['Nothing passed.'] : []),
    ...(flaky.length > maxFlaky
      ? [`${flaky.length} files are flaky: more than ${maxFlaky} fail the run.`]
      : []),
    ...(skipped > 0 && everythingRequired
      ? ['Skipped tests count as failures here: CI or WARREN_TEST_REQUIRE is set.']
      : []),
  ]
  return {
    good: failed === 0 && reasons.length === 0,
    reasons,
    lastLine: `${passed} passed, ${failed} failed${skipped > 0 ? `, ${skipped} skipped` : ''}`,
  }
}
