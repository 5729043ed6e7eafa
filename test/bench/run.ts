/**
 * `npm run bench [-- name …] [--long] [--rounds 5] [--count 20] [--isolation container] [--no-docker]
 * [--nodes 1000] [--sandboxes 10000] [--before FOLDER]`
 * Runs the named benchmarks; where none is named, those that take some ten minutes together, or with --long all of them,
 * with more rounds. Prints what each found, and keeps it at once as JSON and as a chart; `publish.ts` puts that into the
 * project's pages. Root only.
 */
import { writeFileSync } from 'node:fs'
import { parseArgs } from 'node:util'
import { errorText } from '../../src/lib/app-error.ts'
import { type Isolation, isolations } from '../support/warren.ts'
import { type BenchMachine, openBenchMachine } from './bench-machine.ts'
import { cluster } from './benchmarks/cluster.ts'
import { commands } from './benchmarks/commands.ts'
import { commits } from './benchmarks/commits.ts'
import { controlPlane } from './benchmarks/control-plane.ts'
import { cpu } from './benchmarks/cpu.ts'
import { edge } from './benchmarks/edge.ts'
import { folders } from './benchmarks/folders.ts'
import { gpu } from './benchmarks/gpu.ts'
import { hop } from './benchmarks/hop.ts'
import { hostile } from './benchmarks/hostile.ts'
import { interactive } from './benchmarks/interactive.ts'
import { interpreter } from './benchmarks/interpreter.ts'
import { jobs } from './benchmarks/jobs.ts'
import { memory } from './benchmarks/memory.ts'
import { objectStore } from './benchmarks/object-store.ts'
import { pauses } from './benchmarks/pauses.ts'
import { ptys } from './benchmarks/ptys.ts'
import { sandboxes } from './benchmarks/sandboxes.ts'
import { services } from './benchmarks/services.ts'
import { templates } from './benchmarks/templates.ts'
import { transfer } from './benchmarks/transfer.ts'
import { work } from './benchmarks/work.ts'
import { chartSvg } from './chart.ts'
import { beOnlyRun } from './only-run.ts'
import { newRun, previousReport, type Report, reportText, saveRun, targetsText } from './report.ts'

/** `nodes` and `sandboxes`: of the cluster that is not real. `before`: the checkout that this one is compared with. */
type Sizes = { rounds: number; count: number; nodes: number; sandboxes: number; before: string | undefined }
type Benchmark = (machine: BenchMachine, sizes: Sizes) => Promise<Report>

/** In this order: memory wants a server that has done nothing yet. */
const short: Record<string, Benchmark> = {
  memory,
  sandboxes,
  interactive,
  commands,
  cpu,
  jobs,
  services,
  edge,
  pauses,
  'control-plane': controlPlane,
}
const benchmarks: Record<string, Benchmark> = {
  ...short,
  folders,
  ptys,
  transfer,
  templates,
  hostile,
  interpreter,
  'object-store': objectStore,
  hop,
  cluster,
  work,
}
/** Only by name: they need what few machines have, a GPU or a second checkout. */
const byName: Record<string, Benchmark> = { ...benchmarks, gpu, commits }

const { values, positionals } = parseArgs({
  allowPositionals: true,
  allowNegative: true,
  options: {
    long: { type: 'boolean', default: false },
    rounds: { type: 'string' },
    count: { type: 'string' },
    isolation: { type: 'string', multiple: true, default: [...isolations] },
    docker: { type: 'boolean', default: true },
    nodes: { type: 'string', default: '1000' },
    sandboxes: { type: 'string', default: '10000' },
    before: { type: 'string' },
  },
})

process.exitCode = await main().catch((error) => {
  process.stderr.write(`${errorText(error)}\n`)
  return 1
})

async function main(): Promise<number> {
  const names = positionals.length > 0 ? positionals : Object.keys(values.long ? benchmarks : short)
  const unknown = names.find((name) => !(name in byName))
  if (unknown)
    throw new Error(`There is no benchmark ${unknown}; choose from ${Object.keys(byName).join(', ')}.`)
  const { long } = values
  const sizes = {
    rounds: positive('rounds', values.rounds ?? (long ? '15' : '5')),
    count: positive('count', values.count ?? (long ? '100' : '20')),
    nodes: positive('nodes', values.nodes),
    sandboxes: positive('sandboxes', values.sandboxes),
    before: values.before,
  }
  const letNextBegin = beOnlyRun()
  const interrupt = new AbortController()
  for (const signal of ['SIGINT', 'SIGTERM'] as const) {
    // The support of the tests ends the process at once, and would leave Docker and sandboxes behind.
    process.removeAllListeners(signal)
    process.once(signal, () => {
      process.stderr.write('\nStopping; what was started is taken down first …\n')
      interrupt.abort(new Error('Interrupted.'))
    })
  }
  const machine = openBenchMachine({
    isolations: values.isolation as Isolation[],
    docker: values.docker,
    signal: interrupt.signal,
  })
  const run = newRun(new Date())
  let tail = ''
  if (run.machine.load > run.machine.cpus) machine.say('This machine is busy: trust only the ratios.')
  try {
    for (const name of names) {
      machine.say(`Benchmark ${name}`)
      const before = previousReport(name)
      const report = await byName[name]!(machine, sizes)
      run.reports[name] = report
      process.stdout.write(`${reportText(report, before)}\n`)
      // Written after each benchmark, so that a run that fails or is interrupted later keeps its results.
      tail = saveRun(run)
      writeFileSync(`${tail}.svg`, chartSvg(previousReport))
    }
    process.stdout.write(`${targetsText(Object.values(run.reports))}\n`)
    process.stdout.write(`\nKept in ${tail}.json and, as a chart, ${tail}.svg\n`)
    return 0
  } finally {
    await machine.close()
    letNextBegin()
  }
}

function positive(name: string, text: string): number {
  const value = Number(text)
  if (!Number.isInteger(value) || value < 1)
    throw new Error(`--${name} is '${text}', but must be a whole number from 1.`)
  return value
}
