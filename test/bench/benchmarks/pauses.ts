/** Pause, resume and fork with different amounts of memory in use, beside `runsc checkpoint` and `restore` by hand. */
import { readdir, stat } from 'node:fs/promises'
import { join } from 'node:path'
import { Sandbox } from 'e2b'
import { dataPaths } from '../../../src/app/data/data-folder.ts'
import { delay } from '../../../src/lib/clock.ts'
import type { Warren } from '../../support/warren.ts'
import type { BenchMachine } from '../bench-machine.ts'
import { rawSlot } from '../contenders/raw-for.ts'
import { RawPause, type RawPauseOptions } from '../contenders/raw-pause.ts'
import type { RawSlot } from '../contenders/raw-runtime.ts'
import type { ContainerProcess } from '../contenders/raw-spec.ts'
import { startedAgent, warrenName } from '../contenders/warren.ts'
import { type Contender, type Row, rowName, takeTurns, timed } from '../measure.ts'
import { medianOf, type Report, type Target } from '../report.ts'

const sizesMB = [10, 100, 500] as const
const forkCount = 10
const forkStep = `fork of ${forkCount}`
/** Time for what was killed to be gone, for what was used up to be made anew, and for what was written to be on disk. */
const pauseMs = 1500
/** Between pause and resume: what ended has time to go. */
const restMs = 500
/** Not in /tmp, which gVisor by itself keeps in memory. */
const readyFile = '/var/tmp/held'

const roundsFor = (usedMB: number, rounds: number): number => Math.min(rounds, usedMB > 100 ? 3 : 5)
const named = (name: string, usedMB: number): string => `${name}, ${usedMB} MB`
const [rawName, lastingName] = ['raw runsc', 'raw runsc, lasting']

/** Memory that nothing can compress, and then a file with the process id. */
const programUsing = (usedMB: number): string => `import os, time
held = os.urandom(${usedMB} * 1000 * 1000)
open('${readyFile}.new', 'w').write(str(os.getpid()))
os.rename('${readyFile}.new', '${readyFile}')
time.sleep(1e6)`

export async function pauses(machine: BenchMachine, { rounds }: { rounds: number }): Promise<Report> {
  const rows: Row[] = []
  for (const usedMB of sizesMB) {
    const memoryRows: Row[] = []
    const contenders: Contender[] = []
    for (const isolation of machine.isolations) {
      const warren = await machine.warren(isolation)
      if (isolation === 'gvisor') contenders.push(...(await rawContenders(machine, warren, usedMB)))
      contenders.push(warrenContender(warren, usedMB, snapshotRow(memoryRows, warren, usedMB)))
    }
    const max = roundsFor(usedMB, rounds)
    const onRound = (done: number) => machine.say(`  ${usedMB} MB, round ${done} of ${max}`)
    const warmUps = usedMB === sizesMB[0] ? 1 : 0
    const options = { rounds: max, warmUps, pauseMs, signal: machine.signal, onRound }
    rows.push(...(await takeTurns(contenders, options)), ...memoryRows)
  }
  return { title: `Pauses: with memory in use, at most ${rounds} rounds`, rows, targets: targets({ rows }) }
}

function targets(report: Pick<Report, 'rows'>): Target[] {
  return sizesMB.flatMap((usedMB) =>
    [lastingName, rawName].flatMap((raw) =>
      // A pause that is only in the page cache keeps less than ours: docs/decisions/0018.
      (raw === rawName ? ['resume', forkStep] : ['pause', 'resume']).map((step) => ({
        promise: `gVisor, ${usedMB} MB, ${step} against ${raw}`,
        value:
          medianOf(report, rowName(named('warren gvisor', usedMB), step)) /
          medianOf(report, rowName(named(raw, usedMB), step)),
        atMost: step === forkStep ? 1.1 : 1.5,
        unit: ' ×',
      })),
    ),
  )
}

function snapshotRow(rows: Row[], warren: Warren, usedMB: number): Row {
  const name = rowName(named(warrenName(warren), usedMB), 'paused, on disk')
  const row: Row = { name, unit: 'MB', samples: [], failures: [] }
  rows.push(row)
  return row
}

/** With `lasting`, a pause is there after a power cut, as Warren's is; without, it is left to the page cache. */
async function rawContenders(machine: BenchMachine, warren: Warren, usedMB: number): Promise<Contender[]> {
  const agent = await startedAgent(warren)
  const slots: RawSlot[] = []
  for (let network = 0; network <= forkCount; network++) {
    slots.push(await rawSlot(machine, warren.isolation, agent, network))
  }
  const options = {
    process: withMemoryUser(agent.process, usedMB),
    slots: slots as [RawSlot, ...RawSlot[]],
    readyFile,
  }
  return [
    rawContender(named(rawName, usedMB), { ...options, lasting: false }),
    rawContender(named(lastingName, usedMB), { ...options, lasting: true }),
  ]
}

function withMemoryUser({ args, ...rest }: ContainerProcess, usedMB: number): ContainerProcess {
  const script = 'python3 -c "$1" & shift; exec "$@"'
  return { ...rest, args: ['/bin/sh', '-c', script, 'sh', programUsing(usedMB), ...args] }
}

function rawContender(name: string, options: RawPauseOptions): Contender {
  return {
    name,
    async sample() {
      const raw = await RawPause.open(options)
      try {
        const steps: Record<string, number> = options.lasting ? {} : { [forkStep]: await raw.fork() }
        await delay(pauseMs)
        const pause = await raw.pause()
        await delay(restMs)
        return { ...steps, pause, resume: await raw.resume() }
      } finally {
        await raw.close()
      }
    },
  }
}

function warrenContender(warren: Warren, usedMB: number, memoryRows: Row): Contender {
  return {
    name: named(warrenName(warren), usedMB),
    async sample() {
      const sandbox = await Sandbox.create('base', { ...warren.client, timeoutMs: 3_600_000 })
      try {
        const command = `nohup python3 -c "${programUsing(usedMB)}" >/dev/null 2>&1 &`
        await sandbox.commands.run(`${command} while ! [ -s ${readyFile} ]; do sleep 0.02; done`)
        const steps: Record<string, number> =
          warren.isolation === 'gvisor' ? { [forkStep]: await forkMs(sandbox) } : {}
        await delay(pauseMs)
        const [pause] = await timed(() => sandbox.pause())
        memoryRows.samples.push(await snapshotMB(warren, sandbox))
        await delay(restMs)
        const [resume] = await timed(() => sandbox.connect())
        await sandbox.commands.run(`test -d /proc/$(cat ${readyFile})`)
        return { ...steps, pause, resume }
      } finally {
        await sandbox.kill()
      }
    },
  }
}

async function forkMs(sandbox: Sandbox): Promise<number> {
  const [ms, forks] = await timed(() => sandbox.fork({ count: forkCount }))
  const failure = forks.find((one) => one instanceof Error)
  await Promise.all(forks.map((one) => (one instanceof Error ? undefined : one.kill())))
  if (failure) throw failure
  return ms
}

async function snapshotMB(warren: Warren, { sandboxId }: Sandbox): Promise<number> {
  const { snapshots: saved } = dataPaths(warren.dataFolder)
  const folder = (await readdir(saved)).find((name) => name.startsWith(`${sandboxId}-`))
  if (!folder) throw new Error(`nothing is kept of sandbox ${sandboxId} in ${saved}`)
  const names = await readdir(join(saved, folder), { recursive: true })
  const sizes = await Promise.all(names.map((name) => stat(join(saved, folder, name))))
  return sizes.reduce((sum, { blocks }) => sum + blocks * 512, 0) / 1e6
}
