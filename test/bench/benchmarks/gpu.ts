/**
 * A GPU in a sandbox: what it computes and copies, and what a program of PyTorch waits for, beside bare metal; and create,
 * pause, resume and fork with memory on the GPU beside `runsc` with the driver's own checkpoint by hand. It needs a
 * card, so only `npm run bench -- gpu` runs it.
 */
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { Sandbox } from 'e2b'
import { delay } from '../../../src/lib/clock.ts'
import { runCommand } from '../../../src/lib/run-command.ts'
import { repoFolder, type Warren } from '../../support/warren.ts'
import type { BenchMachine } from '../bench-machine.ts'
import { rawSlot } from '../contenders/raw-for.ts'
import { parseCount, RawGpu, type RawGpuOptions, untilAbove } from '../contenders/raw-gpu.ts'
import { startedAgent, warrenName } from '../contenders/warren.ts'
import { type Contender, type Row, rowName, takeTurns, timed } from '../measure.ts'
import { medianOf, type Report, type Target } from '../report.ts'

/** GiB on the card, and how often it is done. */
const sizes = [
  { usedGB: 1, max: 2 },
  { usedGB: 4, max: 2 },
  { usedGB: 16, max: 1 },
] as const
const [isolation, bareName, rawName] = ['gvisor', 'bare metal', 'raw runsc and CUDA'] as const
/** Time for what was killed to be gone, and for what was written to be on disk. */
const pauseMs = 1000
/** A Python that exists here and in the base template; with PyTorch, its product is measured too. */
const python = process.env.WARREN_BENCH_PYTHON ?? 'python3'
const withGpu = { metadata: { 'warren.gpus': '1' }, timeoutMs: 3_600_000 }

const named = (name: string, usedGB: number): string => `${name}, ${usedGB} GB`
const script = (path: string): string => readFileSync(join(repoFolder, path), 'utf8')

export async function gpu(machine: BenchMachine, { rounds }: { rounds: number }): Promise<Report> {
  const warren = await machine.warren(isolation, 'gpu')
  const rows = [
    ...(await scriptRows(machine, warren, 'gpu-speed.py', Math.min(rounds, 3))),
    ...(await scriptRows(machine, warren, 'gpu-programs.py', Math.min(rounds, 3))),
    ...(await takeTurns([createContender(warren)], { rounds, signal: machine.signal })),
  ]
  const agent = await startedAgent(warren, 1)
  const { gpu: parts } = agent.process
  if (!parts) throw new Error('this Warren gives its sandboxes no GPU')
  const slots = [
    await rawSlot(machine, isolation, agent, 0, 'gpu'),
    await rawSlot(machine, isolation, agent, 1, 'gpu'),
  ] as const
  const [first, second] = slots.map((slot) => ({ ...slot, command: [...slot.command, '--nvproxy=true'] }))
  for (const { usedGB, max } of sizes) {
    const options: RawGpuOptions = {
      process: { ...agent.process, gpu: parts },
      slots: [first!, second!],
      counter: script('test/gpu/counter.py'),
      usedMB: usedGB * 1024,
    }
    const contenders = [
      rawContender(named(rawName, usedGB), options),
      warrenContender(named(warrenName(warren), usedGB), warren, options),
    ]
    const onRound = (done: number) => machine.say(`  ${usedGB} GB, round ${done} of ${Math.min(max, rounds)}`)
    const turns = { rounds: Math.min(max, rounds), warmUps: 0, pauseMs, signal: machine.signal, onRound }
    rows.push(...shown(machine, await takeTurns(contenders, turns)))
  }
  const title = `GPU: beside bare metal, at most ${rounds} rounds; with memory on it, at most ${sizes[0].max}`
  return {
    title,
    rows,
    references: [{ label: bareName, contender: bareName }],
    targets: targets({ rows }, warren),
  }
}

/** The same script here and in a sandbox. */
async function scriptRows(
  machine: BenchMachine,
  warren: Warren,
  name: string,
  rounds: number,
): Promise<Row[]> {
  const path = `test/bench/contenders/${name}`
  const sandbox = await Sandbox.create('base', { ...warren.client, ...withGpu })
  try {
    await sandbox.files.write(`/tmp/${name}`, script(path))
    const inside: Contender = {
      name: warrenName(warren),
      sample: async () => {
        const { stdout } = await sandbox.commands.run(`${python} /tmp/${name}`, { timeoutMs: 300_000 })
        return JSON.parse(stdout)
      },
    }
    const outside: Contender = {
      name: bareName,
      sample: async () => {
        const { stdout } = await runCommand(python, [join(repoFolder, path)], { timeoutMs: 300_000 })
        return JSON.parse(stdout)
      },
    }
    const onRound = (done: number) => machine.say(`  ${name}, round ${done} of ${rounds}`)
    return shown(machine, await takeTurns([outside, inside], { rounds, signal: machine.signal, onRound }))
  } finally {
    await sandbox.kill()
  }
}

/** Prints rows at once: a machine with a card is lent for a short time, and 16 GB take minutes. */
function shown(machine: BenchMachine, rows: Row[]): Row[] {
  for (const { name, samples } of rows)
    machine.say(`  ${name}: ${samples.map((sample) => sample.toFixed(1)).join(', ')} ms`)
  return rows
}

function createContender(warren: Warren): Contender {
  return {
    name: warrenName(warren),
    async sample() {
      const steps: Record<string, number> = {}
      for (const [name, options] of [
        ['without a GPU', {}],
        ['with a GPU', withGpu],
      ] as const) {
        const [create, sandbox] = await timed(() => Sandbox.create('base', { ...warren.client, ...options }))
        const command = name === 'with a GPU' ? 'nvidia-smi -L' : 'true'
        const [first] = await timed(() => sandbox.commands.run(command)).finally(() => sandbox.kill())
        steps[`create ${name}`] = create
        steps[`create ${name}, and ${command}`] = create + first
      }
      return steps
    },
  }
}

function rawContender(name: string, options: RawGpuOptions): Contender {
  return {
    name,
    async sample() {
      const raw = await RawGpu.open(options)
      try {
        const { toHost, toGpu } = await raw.parts()
        const fork = await raw.fork()
        await delay(pauseMs)
        const pause = await raw.pause()
        await delay(pauseMs)
        const resume = await raw.resume()
        return {
          'part: to the host, by the driver': toHost,
          'part: back to the GPU': toGpu,
          fork,
          pause,
          resume,
        }
      } finally {
        await raw.close()
      }
    },
  }
}

function warrenContender(name: string, warren: Warren, { counter, usedMB }: RawGpuOptions): Contender {
  return {
    name,
    async sample() {
      const sandbox = await Sandbox.create('base', { ...warren.client, ...withGpu })
      try {
        await sandbox.files.write('/var/tmp/counter.py', counter)
        const words = `python3 /var/tmp/counter.py /var/tmp/count ${usedMB}`
        await sandbox.commands.run(words, { background: true, timeoutMs: 0 })
        await untilCounts(sandbox, 0)
        const fork = await forkMs(sandbox)
        await delay(pauseMs)
        const [pause] = await timed(() => sandbox.pause())
        await delay(pauseMs)
        const [resume] = await timed(() => sandbox.connect())
        await untilCounts(sandbox, await countOf(sandbox))
        return { fork, pause, resume }
      } finally {
        await sandbox.kill()
      }
    },
  }
}

async function forkMs(sandbox: Sandbox): Promise<number> {
  const before = await countOf(sandbox)
  const [ms, [fork]] = await timed(() => sandbox.fork())
  if (!fork || fork instanceof Error) throw fork ?? new Error('there is no fork')
  await untilCounts(fork, before).finally(() => fork.kill())
  return ms
}

const countOf = async (sandbox: Sandbox): Promise<number> =>
  parseCount(await sandbox.files.read('/var/tmp/count').catch(() => ''))

const untilCounts = (sandbox: Sandbox, above: number): Promise<void> =>
  untilAbove(() => countOf(sandbox), above)

function targets(report: Pick<Report, 'rows'>, warren: Warren): Target[] {
  const own = warrenName(warren)
  const bare = report.rows.filter(({ name }) => name.startsWith(`${bareName} · `))
  const steps = bare
    .map(({ name }) => name.slice(name.indexOf(' · ') + 3))
    .filter((step) => step !== 'failed')
  const ratio = (promise: string, ours: string, theirs: string, atMost: number): Target => ({
    promise,
    value: medianOf(report, ours) / medianOf(report, theirs),
    atMost,
    unit: ' ×',
  })
  return [
    ...steps.map((step) =>
      ratio(
        `${step}, against ${bareName}`,
        rowName(own, step),
        rowName(bareName, step),
        step.startsWith('program: ') ? 1.3 : 1 / 0.98,
      ),
    ),
    ratio(
      'create until nvidia-smi has answered, against a create without a GPU',
      rowName(own, 'create with a GPU, and nvidia-smi -L'),
      rowName(own, 'create without a GPU, and true'),
      2,
    ),
    ...sizes.flatMap(({ usedGB }) =>
      ['pause', 'resume', 'fork'].map((step) =>
        ratio(
          `${step} with ${usedGB} GB, against ${rawName}`,
          rowName(named(own, usedGB), step),
          rowName(named(rawName, usedGB), step),
          1.15,
        ),
      ),
    ),
  ]
}
