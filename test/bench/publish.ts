/**
 * Puts what was measured last into the project's pages: `bin/node test/bench/publish.ts`. It draws docs/benchmark.svg and
 * writes our figures and Docker's into the tables of README.md and docs/figures.md. What was not measured stays as it is.
 */
import { readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { repoFolder } from '../support/warren.ts'
import { workJobs } from './benchmarks/work.ts'
import { chartSvg } from './chart.ts'
import { medianOf, previousReport, type SavedReport } from './report.ts'

/** A line of the table, by what its first cell begins with, and what its first and last column say. */
type Line = {
  begins: string
  row: string
  ours: (container: string, gvisor: string) => string
  docker: string
}

const lines: Line[] = [
  {
    begins: 'create and first command, one after another',
    row: 'sequential',
    ours: (container, gvisor) => `${container} containers, ${gvisor} gVisor (warm pool)`,
    docker: '',
  },
  {
    begins: '100 creates at once, until the last answers',
    row: 'burst of 100, until the last has answered',
    ours: (container, gvisor) => `${container} containers, ${gvisor} gVisor, on 2 cores`,
    docker: ', on the same 2 cores',
  },
  {
    begins: 'the same 100 once more, within the hour',
    row: 'burst of 100, seen before, until the last has answered',
    ours: (container, gvisor) => `${container} containers, ${gvisor} gVisor (warm pool)`,
    docker: '',
  },
]

export function withFigures(page: string, { report }: SavedReport): string {
  return page
    .split('\n')
    .map((text) => {
      const line = lines.find(({ begins }) => text.startsWith(`| ${begins}`))
      return line ? filled(text, line, (contender) => medianOf(report, `${contender} · ${line.row}`)) : text
    })
    .join('\n')
}

function filled(text: string, { ours, docker }: Line, msOf: (contender: string) => number): string {
  const cells = text.split(' | ')
  const [container, gvisor, dockerMs] = [msOf('warren container'), msOf('warren gvisor'), msOf('docker')]
  if (Number.isFinite(container + gvisor)) cells[1] = ours(duration(container), duration(gvisor))
  if (Number.isFinite(dockerMs)) cells[cells.length - 1] = `${duration(dockerMs)}${docker} |`
  return cells.join(' | ')
}

/** The tables of work inside a sandbox, whose lines begin with the names of jobs, and the sentence that says when. */
export function withWork(page: string, saved: SavedReport): string {
  return page
    .split('\n')
    .map((text) => {
      if (text.startsWith(measuredOn)) return whenText(saved)
      const job = Object.keys(workJobs).find((name) => text.startsWith(`| ${name} | `))
      return job === undefined ? text : (workLine(job, saved.report) ?? text)
    })
    .join('\n')
}

const measuredOn = 'The work of agents was measured on '

function whenText({ date, machine: { load, cpus }, report }: SavedReport): string {
  const tries = Math.max(...report.rows.map(({ samples }) => samples.length))
  const busy = load > cpus ? ' The machine was busy with other work, so the ratios are rough.' : ''
  return `${measuredOn}${date.slice(0, 10)}: ${cpus} cores, load ${load.toFixed(1)}, medians of ${tries}.${busy}`
}

function workLine(job: string, report: SavedReport['report']): string | undefined {
  const [container, gvisor, docker] = ['warren container', 'warren gvisor', 'docker'].map((contender) =>
    medianOf(report, `${contender} · ${job}`),
  ) as [number, number, number]
  if (!Number.isFinite(container + gvisor + docker)) return undefined
  const times = [container, gvisor, docker].map(duration)
  const ratios = [gvisor / container, gvisor / docker].map((ratio) => `${ratio.toFixed(1)} ×`)
  return `| ${[job, ...times, ...ratios].join(' | ')} |`
}

const duration = (ms: number): string =>
  ms < 1000 ? `${Math.round(ms)} ms` : `${(ms / 1000).toFixed(ms < 10_000 ? 1 : 0)} s`

if (import.meta.main) {
  writeFileSync(join(repoFolder, 'docs/benchmark.svg'), chartSvg(previousReport))
  const [page, interactive] = [join(repoFolder, 'README.md'), previousReport('interactive')]
  if (interactive) writeFileSync(page, withFigures(readFileSync(page, 'utf8'), interactive))
  const inside = previousReport('work')
  for (const path of inside ? [page, join(repoFolder, 'docs/figures.md')] : []) {
    writeFileSync(path, withWork(readFileSync(path, 'utf8'), inside!))
  }
}
