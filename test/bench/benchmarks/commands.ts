/** A short command in a living sandbox, beside the same command through the runtimes' own exec. */
import { Sandbox } from 'e2b'
import type { Isolation } from '../../support/warren.ts'
import type { BenchMachine } from '../bench-machine.ts'
import { rawFor } from '../contenders/raw-for.ts'
import type { RunningContainer } from '../contenders/raw-runtime.ts'
import { echo, startedAgent, warrenName } from '../contenders/warren.ts'
import { type Contender, type Row, rowName, takeTurns, timed } from '../measure.ts'
import { medianOf, type Report, type Target } from '../report.ts'

const step = 'echo'
/** What the client sends for `echo hello`. */
const words = ['/bin/bash', '-l', '-c', 'echo hello']
const manyCommands = 1000
const atOnce = 4
const triesPerRound = 4
/** It was 0.41 with gVisor's build of 2026-05-27, on 2026-11-15; 0.6 times that is wanted. */
const gvisorAtMost = 0.25

export async function commands(machine: BenchMachine, { rounds }: { rounds: number }): Promise<Report> {
  const closers: (() => Promise<unknown>)[] = []
  const contenderOf = (name: string, container: RunningContainer): Contender => {
    closers.push(() => container.close())
    return execs(name, container)
  }
  try {
    const contenders: Contender[] = []
    const boxes: [string, Sandbox][] = []
    for (const isolation of machine.isolations) {
      const warren = await machine.warren(isolation)
      const raw = await rawFor(machine, isolation, await startedAgent(warren))
      const box = await Sandbox.create('base', { ...warren.client, timeoutMs: 3_600_000 })
      closers.push(() => box.kill())
      boxes.push([warrenName(warren), box])
      contenders.push({ name: warrenName(warren), sample: async () => ({ [step]: await echo(box) }) })
      contenders.push(contenderOf(`${raw.name} exec`, await raw.startIdle()))
    }
    for (const engine of await machine.engines()) {
      contenders.push(contenderOf(`${engine.name} exec`, await engine.startIdle()))
    }
    const turns = { rounds: rounds * triesPerRound, warmUps: 5, pauseMs: 20, signal: machine.signal }
    const rows = await takeTurns(contenders, turns)
    for (const [name, box] of boxes) rows.push(...(await many(name, box, machine)))
    return { title: `Commands in a living sandbox: ${words.join(' ')}`, rows, ...comparisons({ rows }) }
  } finally {
    for (const close of closers) await close().catch((error) => machine.say(String(error)))
  }
}

function execs(name: string, container: RunningContainer): Contender {
  return {
    name,
    async sample() {
      const [ms, said] = await timed(() => container.exec(words))
      if (said !== 'hello\n') throw new Error(`echo said ${JSON.stringify(said)}`)
      return { [step]: ms }
    },
  }
}

async function many(name: string, box: Sandbox, { signal, say }: BenchMachine): Promise<Row[]> {
  say(`  ${manyCommands} commands, ${atOnce} at a time, ${name}`)
  const each: number[] = []
  const failures: string[] = []
  let left = manyCommands
  const worker = async () => {
    while (left-- > 0 && !signal.aborted) {
      await echo(box).then(
        (ms) => each.push(ms),
        (error) => failures.push(String(error)),
      )
    }
  }
  const [whole] = await timed(() => Promise.all(Array.from({ length: atOnce }, worker)))
  signal.throwIfAborted()
  const label = `${manyCommands} commands, ${atOnce} at a time`
  return [
    { name: rowName(name, `${label}: each`), unit: 'ms', samples: each, failures },
    { name: rowName(name, `${label}: all`), unit: 'ms', samples: [whole], failures: [] },
  ]
}

function comparisons(report: Pick<Report, 'rows'>): Pick<Report, 'references' | 'targets'> {
  const row = (contender: string) => rowName(contender, step)
  const target = (isolation: Isolation, atMost: number): Target => ({
    promise: `${isolation}, echo against docker exec`,
    atMost,
    unit: ' ×',
    value: medianOf(report, row(`warren ${isolation}`)) / medianOf(report, row('docker exec')),
  })
  return {
    references: ['docker exec', 'raw runc exec', 'raw runsc exec'].map((name) => ({
      label: name.replace('raw ', ''),
      row: row(name),
    })),
    targets: [target('container', 1 / 10), target('gvisor', gvisorAtMost)],
  }
}
