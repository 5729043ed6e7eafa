/**
 * Time to interactive, as sandbox services are publicly ranked (ComputeSDK): `create` plus `node -v` with the ordinary
 * client, removal untimed, no retries, failures counted. One after the other, one each 200 ms, all at once. Five
 * percent are cut off at each end. A sandbox that was used before fails.
 */
import { Sandbox } from 'e2b'
import { delay } from '../../../src/lib/clock.ts'
import type { Warren } from '../../support/warren.ts'
import type { BenchMachine } from '../bench-machine.ts'
import type { ContainerEngine } from '../contenders/container-engine.ts'
import { ReuseDetector } from '../contenders/reuse-detector.ts'
import { warrenName } from '../contenders/warren.ts'
import { type Contender, type Row, rowName, takeTurns, timed, trimmed } from '../measure.ts'
import { medianOf, type Report, type Target } from '../report.ts'

const staggerMs = 200
const cutShare = 0.05
const [fewAtOnce, manyAtOnce] = [20, 100]
/** The pools of what is made ahead fill up again. */
const restMs = 3000

const [sequential, staggered] = ['sequential', 'staggered']
const burst = (count: number) => `burst of ${count}`
const untilLast = (mode: string) => `${mode}, until the last has answered`

/** `check`: after the figure is taken, and only while nothing else is measured. */
type Interactive = { name: string; use(check: boolean): Promise<Use>; mostAtOnce: number }
/** `answeredAt`: by the clock of `performance.now()`. */
type Use = { ms: number; answeredAt: number }

export async function interactive(machine: BenchMachine, { count }: { count: number }): Promise<Report> {
  const { signal } = machine
  const contenders: Interactive[] = []
  for (const isolation of machine.isolations) contenders.push(warrenUse(await machine.warren(isolation)))
  for (const engine of await machine.engines()) contenders.push(engineUse(engine))
  machine.say(`  ${count} one after the other`)
  const inTurn = contenders.map(({ name, use }): Contender => {
    return { name, sample: async () => ({ [sequential]: (await use(true)).ms }) }
  })
  const rows = await takeTurns(inTurn, { rounds: count, signal })
  for (const contender of contenders) {
    machine.say(`  one each ${staggerMs} ms and all at once, ${contender.name}`)
    await delay(restMs, signal)
    rows.push(...(await together(contender, { mode: staggered, count, apartMs: staggerMs, signal })))
    // A count below 20 is for a quick try.
    const bursts = count < fewAtOnce ? [count] : [fewAtOnce, manyAtOnce]
    for (const atOnce of bursts.filter((most) => most <= contender.mostAtOnce)) {
      await delay(restMs, signal)
      const mode = burst(atOnce)
      rows.push(...(await together(contender, { mode, count: atOnce, apartMs: 0, signal })))
    }
  }
  const cut = rows.map((row) => ({ ...row, samples: trimmed(row.samples, cutShare) }))
  return {
    title: `Time to interactive: create + node -v, ${count} each, 5 % trimmed at each end`,
    rows: cut,
    references: [{ label: 'docker', contender: 'docker' }],
    targets: targets(cut),
  }
}

function targets(rows: Row[]): Target[] {
  const ratio = (contender: string, step: string) =>
    medianOf({ rows }, rowName(contender, step)) / medianOf({ rows }, rowName('docker', step))
  const all = untilLast(burst(manyAtOnce))
  const made = (promise: string, value: number, atMost: number): Target => ({
    ...{ promise, value, atMost, unit: ' ×' },
  })
  const failed = (contender: string) =>
    rows.find(({ name }) => name === rowName(contender, burst(manyAtOnce)))?.failures.length ?? Number.NaN
  return [
    made(`container, ${all}, against docker`, ratio('warren container', all), 1 / 2.5),
    made(`gVisor, ${all}, against docker`, ratio('warren gvisor', all), 1),
    made('gVisor, one each 200 ms, against docker', ratio('warren gvisor', staggered), 1),
    ...['container', 'gvisor'].map((isolation) => ({
      ...{ promise: `${isolation}, failures in a ${burst(manyAtOnce)}`, atMost: 0, unit: '' },
      value: failed(`warren ${isolation}`),
    })),
  ]
}

function warrenUse(warren: Warren): Interactive {
  const detector = new ReuseDetector(warren.isolation)
  const answer = async (sandbox: Sandbox) => {
    const { stdout } = await sandbox.commands.run('node -v')
    if (!/^v\d+\./.test(stdout)) throw new Error(`node -v said ${JSON.stringify(stdout)}`)
  }
  return {
    name: warrenName(warren),
    mostAtOnce: manyAtOnce,
    async use(check) {
      const [createMs, sandbox] = await timed(() => Sandbox.create('base', warren.client))
      try {
        const [commandMs] = await timed(() => answer(sandbox))
        const answeredAt = performance.now()
        if (check) await detector.check(sandbox)
        return { ms: createMs + commandMs, answeredAt }
      } finally {
        await sandbox.kill()
      }
    },
  }
}

function engineUse(engine: ContainerEngine): Interactive {
  return {
    name: engine.name,
    // A hundred at once take podman minutes.
    mostAtOnce: engine.name === 'docker' ? manyAtOnce : fewAtOnce,
    async use() {
      const start = performance.now()
      const { firstOutputMs } = await engine.run(['node', '-v'])
      return { ms: firstOutputMs, answeredAt: start + firstOutputMs }
    },
  }
}

type Mode = { mode: string; count: number; apartMs: number; signal: AbortSignal }

async function together({ name, use }: Interactive, { mode, count, apartMs, signal }: Mode): Promise<Row[]> {
  const start = performance.now()
  const tries = Array.from({ length: count }, async (_, index) => {
    await delay(index * apartMs, signal)
    return use(false)
  })
  // All of them, also after Ctrl-C: each removes its own sandbox.
  const settled = await Promise.allSettled(tries)
  signal.throwIfAborted()
  const uses = settled.flatMap((one) => (one.status === 'fulfilled' ? [one.value] : []))
  const failures = settled.flatMap((one) => (one.status === 'rejected' ? [String(one.reason)] : []))
  const lastMs = Math.max(...uses.map(({ answeredAt }) => answeredAt)) - start
  const row = (step: string, values: number[], failed: string[]): Row => ({
    ...{ name: rowName(name, step), unit: 'ms', samples: values, failures: failed },
  })
  const each = row(
    mode,
    uses.map(({ ms }) => ms),
    failures,
  )
  return apartMs === 0 ? [each, row(untilLast(mode), [lastMs], [])] : [each]
}
