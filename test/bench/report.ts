/** What a run found: as a table for people, with ratios; as JSON for the next run to be held against. */
import { mkdirSync, readdirSync, readFileSync, writeFileSync } from 'node:fs'
import { cpus, loadavg, release } from 'node:os'
import { join } from 'node:path'
import { cacheFolder } from '../support/warren.ts'
import { median, percentile, type Row, rowName, stepOf } from './measure.ts'

/** A promise of ours. Printed as met or missed; never asserted, since machines differ. */
export type Target = { promise: string; value: number; atMost: number; unit: string }

export type Report = {
  title: string
  rows: Row[]
  /** The programs that Warren is held against, with their versions. */
  peers?: string[]
  /** What all rows are divided by, each in a column of its own: one row, or a contender's row of the same step. */
  references?: ({ label: string } & ({ row: string } | { contender: string }))[]
  targets?: Target[]
}

export type Run = {
  date: string
  /** `load`: the average of the minute before. */
  machine: { cpus: number; kernel: string; load: number }
  reports: Record<string, Report>
}

const folder = join(cacheFolder, 'bench')

export const newRun = (date: Date): Run => ({
  date: date.toISOString(),
  machine: { cpus: cpus().length, kernel: release(), load: loadavg()[0]! },
  reports: {},
})

/** Where the run's JSON is kept, without the ending: what is made of it lies beside it. */
export function saveRun(run: Run): string {
  mkdirSync(folder, { recursive: true })
  const path = join(folder, run.date.replaceAll(':', '-').slice(0, 19))
  writeFileSync(`${path}.json`, `${JSON.stringify(run, null, 1)}\n`)
  return path
}

export const machineText = ({ cpus: count, kernel }: Run['machine']): string =>
  `${count} cores, Linux ${kernel.split('.').slice(0, 2).join('.')}`

export type SavedReport = Pick<Run, 'date' | 'machine'> & { report: Report }

/** That of the newest run which has this benchmark. */
export function previousReport(name: string): SavedReport | undefined {
  mkdirSync(folder, { recursive: true })
  const files = readdirSync(folder).filter((file) => file.endsWith('.json'))
  for (const file of files.sort().reverse()) {
    const run = JSON.parse(readFileSync(join(folder, file), 'utf8')) as Run
    const report = run.reports[name]
    if (report) return { date: run.date, machine: run.machine, report }
  }
  return undefined
}

export function reportText(report: Report, before?: { date: string; report: Report }): string {
  const references = report.references ?? []
  const header = ['', 'n', 'median', 'p95', 'p99', 'least', ...references.map(({ label }) => `× ${label}`)]
  if (before) header.push('before', 'now/before')
  const body = report.rows.map((row) => [
    ...cells(row, report),
    ...(before ? earlier(row, before.report) : []),
  ])
  const failures = report.rows.flatMap(({ name, failures: [first, ...more] }) =>
    first === undefined ? [] : [`${name}: ${more.length + 1} times, first: ${first}`],
  )
  return [
    `\n${report.title}${before ? ` (before: ${before.date.slice(0, 16)})` : ''}`,
    ...aligned([header, ...body]),
    ...(report.targets ?? []).map(targetText),
    ...failures,
  ].join('\n')
}

function cells({ name, unit, samples, failures }: Row, report: Report): string[] {
  const middle = median(samples)
  const ratios = (report.references ?? []).map((reference) => {
    const row = 'row' in reference ? reference.row : rowName(reference.contender, stepOf(name))
    return ratio(middle, medianOf(report, row))
  })
  const [p95, p99, min] = [percentile(samples, 95), percentile(samples, 99), Math.min(...samples)]
  const count = failures.length ? `${samples.length}+${failures.length}!` : String(samples.length)
  return [
    name,
    count,
    samples.length ? `${figure(middle)} ${unit}` : '–',
    figure(p95),
    figure(p99),
    figure(min),
    ...ratios,
  ]
}

function earlier(row: Row, before: Report): string[] {
  const then = medianOf(before, row.name)
  return [figure(then), ratio(median(row.samples), then)]
}

export function medianOf(report: Pick<Report, 'rows'>, name: string): number {
  return median(report.rows.find((row) => row.name === name)?.samples ?? [])
}

/** The targets of all reports, once more in one place. */
export function targetsText(reports: readonly Report[]): string {
  const targets = reports.flatMap((report) => report.targets ?? [])
  return targets.length === 0 ? '' : ['\nTargets', ...targets.map(targetText)].join('\n')
}

function targetText({ promise, value, atMost, unit }: Target): string {
  if (!Number.isFinite(value)) return `?      ${promise}: not measured`
  const verdict = value <= atMost ? 'met   ' : 'MISSED'
  return `${verdict} ${promise}: ${figure(value)}${unit}, at most ${figure(atMost)}${unit}`
}

const ratio = (value: number, base: number): string =>
  Number.isFinite(value / base) ? (value / base).toFixed(2) : '–'

function figure(value: number): string {
  if (!Number.isFinite(value)) return '–'
  return value < 10 ? value.toFixed(2) : value < 100 ? value.toFixed(1) : value.toFixed(0)
}

function aligned(table: string[][]): string[] {
  const widths = table[0]!.map((_, column) => Math.max(...table.map((row) => row[column]!.length)))
  return table.map((row) =>
    row
      .map((cell, column) => (column === 0 ? cell.padEnd(widths[0]!) : cell.padStart(widths[column]!)))
      .join('  ')
      .trimEnd(),
  )
}
