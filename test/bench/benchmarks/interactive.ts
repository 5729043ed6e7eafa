/**
 * Time to interactive, as sandbox services are publicly ranked (ComputeSDK): `create` plus `node -v` with the ordinary
 * client, removal untimed, no retries, failures counted. One after the other, one each 200 ms, all at once. The last two
 * come as they come, three seconds after each other, and then once more when Warren has seen them before and has made
 * ahead what it makes ahead for that. Contenders take turns with them, each turn with a new Warren that ends with it.
 * Five percent are cut off at each end. A sandbox that was used before fails.
 */
import { Sandbox } from 'e2b'
import { delay } from '../../../src/lib/clock.ts'
import type { Isolation, Warren } from '../../support/warren.ts'
import type { BenchMachine } from '../bench-machine.ts'
import type { ContainerEngine } from '../contenders/container-engine.ts'
import { ReuseDetector } from '../contenders/reuse-detector.ts'
import { warrenName } from '../contenders/warren.ts'
import { type Contender, type Row, rowName, takeTurns, timed, trimmed } from '../measure.ts'
import { medianOf, type Report, type Target } from '../report.ts'

const staggerMs = 200
const cutShare = 0.05
const fewAtOnce = 20
const manyAtOnce = 100
/** The speed of a machine that is shared with others changes within minutes. */
const turnsTogether = 3
/** Number of runs that warm up a new Warren. */
const warmUps = 3
/** The pools of what is made ahead fill up again, in part. */
const restMs = 3000
/** Of the warm pool: how often it is looked at, how long it must stay the same, and how long it may take. */
const lookMs = 250
const stillMs = 6000
const refillLimitMs = 120_000

const sequential = 'sequential'
const staggered = 'staggered'
const burst = (count: number) => `burst of ${count}`
const seenBefore = (mode: string) => `${mode}, seen before`
const untilLast = (mode: string) => `${mode}, until the last has answered`

/** `check`: after the figure is taken, and only while nothing else is measured. */
type Interactive = {
  name: string
  use(check: boolean): Promise<Use>
  /** Resolves when all is made ahead that is going to be. */
  untilRefilled(signal: AbortSignal): Promise<void>
}
type Party = {
  maxAtOnce: number
  steady: Interactive
  /** With one that has seen none of it before. */
  withNew<T>(work: (contender: Interactive) => Promise<T>): Promise<T>
}
/** `answeredAt`: by the clock of `performance.now()`. */
type Use = { ms: number; answeredAt: number }

export async function interactive(machine: BenchMachine, { count }: { count: number }): Promise<Report> {
  const { signal } = machine
  const parties: Party[] = []
  for (const isolation of machine.isolations) parties.push(await warrenParty(machine, isolation))
  for (const engine of await machine.engines()) parties.push(engineParty(engine))
  machine.say(`  ${count} one after the other`)
  const inTurn = parties.map(({ steady: { name, use } }): Contender => {
    return { name, sample: async () => ({ [sequential]: (await use(true)).ms }) }
  })
  const rows = await takeTurns(inTurn, { rounds: count, signal })
  for (let turn = 1; turn <= turnsTogether; turn++) {
    for (const { steady, maxAtOnce, withNew } of parties) {
      machine.say(`  one each ${staggerMs} ms and all at once, ${steady.name}, ${turn} of ${turnsTogether}`)
      const modes = modesFor(maxAtOnce, count)
      rows.push(...(await withNew((contender) => allTogether(contender, modes, signal))))
    }
  }
  const cut = joined(rows).map((row) => ({ ...row, samples: trimmed(row.samples, cutShare) }))
  return {
    title: `Time to interactive: create + node -v, ${count} each, 5 % trimmed at each end`,
    rows: cut,
    references: [{ label: 'docker', contender: 'docker' }],
    targets: targets(cut),
  }
}

async function allTogether(contender: Interactive, modes: Mode[], signal: AbortSignal): Promise<Row[]> {
  const rows: Row[] = []
  for (let done = 0; done < warmUps; done++) await contender.use(true)
  await contender.untilRefilled(signal)
  for (const mode of modes) {
    await delay(restMs, signal)
    rows.push(...(await together(contender, mode, signal)))
  }
  for (const mode of modes) {
    await contender.untilRefilled(signal)
    rows.push(...(await together(contender, { ...mode, mode: seenBefore(mode.mode) }, signal)))
    await contender.use(true)
  }
  return rows
}

/** One row for all turns. */
function joined(rows: readonly Row[]): Row[] {
  return [...Map.groupBy(rows, ({ name }) => name).values()].map((same) => ({
    ...same[0]!,
    samples: same.flatMap(({ samples }) => samples),
    failures: same.flatMap(({ failures }) => failures),
  }))
}

/** A count below 20 is for a quick try. */
function modesFor(maxAtOnce: number, count: number): Mode[] {
  const bursts = count < fewAtOnce ? [count] : [fewAtOnce, manyAtOnce].filter((max) => max <= maxAtOnce)
  return [
    { mode: staggered, count, apartMs: staggerMs },
    ...bursts.map((atOnce) => ({ mode: burst(atOnce), count: atOnce, apartMs: 0 })),
  ]
}

function targets(rows: Row[]): Target[] {
  return [
    ...targetsOf(rows, 'as it comes', (mode) => mode),
    ...targetsOf(rows, 'once seen before', seenBefore),
  ]
}

/** Docker makes nothing ahead, so what it takes at first is what it takes. */
function targetsOf(rows: Row[], when: string, stepOf: (mode: string) => string): Target[] {
  const ratio = (promise: string, contender: string, atMost: number, mode: string, step = stepOf(mode)) => ({
    promise: `${promise}, ${when}, against docker`,
    atMost,
    unit: ' ×',
    value: medianOf({ rows }, rowName(contender, step)) / medianOf({ rows }, rowName('docker', mode)),
  })
  const many = burst(manyAtOnce)
  const [all, allOf] = [untilLast(many), untilLast(stepOf(many))]
  const failed = (contender: string) =>
    rows.find(({ name }) => name === rowName(contender, stepOf(many)))?.failures.length ?? Number.NaN
  return [
    ratio(`container, ${all}`, 'warren container', 1 / 2.5, all, allOf),
    ratio(`gVisor, ${all}`, 'warren gvisor', 1, all, allOf),
    ratio('gVisor, one each 200 ms', 'warren gvisor', 1, staggered),
    ...['container', 'gvisor'].map((isolation) => ({
      promise: `${isolation}, failures in a ${many}, ${when}`,
      atMost: 0,
      unit: '',
      value: failed(`warren ${isolation}`),
    })),
  ]
}

async function warrenParty(machine: BenchMachine, isolation: Isolation): Promise<Party> {
  return {
    maxAtOnce: manyAtOnce,
    steady: warrenUse(await machine.warren(isolation)),
    withNew: (work) => machine.withNewWarren(isolation, (warren) => work(warrenUse(warren))),
  }
}

function warrenUse(warren: Warren): Interactive {
  const detector = new ReuseDetector(warren.isolation)
  const answer = async (sandbox: Sandbox) => {
    const { stdout } = await sandbox.commands.run('node -v')
    if (!/^v\d+\./.test(stdout)) throw new Error(`node -v said ${JSON.stringify(stdout)}`)
  }
  return {
    name: warrenName(warren),
    untilRefilled: (signal) => untilPoolStays(warren, signal),
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

/** It remembers nothing, so that it is as good as new. */
function engineParty(engine: ContainerEngine): Party {
  const steady = engineUse(engine)
  // A hundred at once take podman minutes.
  const maxAtOnce = engine.name === 'docker' ? manyAtOnce : fewAtOnce
  return { maxAtOnce, steady, withNew: (work) => work(steady) }
}

function engineUse(engine: ContainerEngine): Interactive {
  return {
    name: engine.name,
    untilRefilled: (signal) => delay(restMs, signal),
    async use() {
      const start = performance.now()
      const { firstOutputMs } = await engine.run(['node', '-v'])
      return { ms: firstOutputMs, answeredAt: start + firstOutputMs }
    },
  }
}

async function untilPoolStays(warren: Warren, signal: AbortSignal): Promise<void> {
  const giveUpAt = performance.now() + refillLimitMs
  let [ready, sinceMs] = [-1, performance.now()]
  while (performance.now() < giveUpAt) {
    const pool = await readPool(warren)
    if (pool.booting > 0 || pool.ready !== ready) [ready, sinceMs] = [pool.ready, performance.now()]
    if (performance.now() - sinceMs >= stillMs) return
    await delay(lookMs, signal)
  }
}

async function readPool({ url, adminToken }: Warren): Promise<{ ready: number; booting: number }> {
  const headers = { authorization: `Bearer ${adminToken}` }
  const text = await (await fetch(`${url}/metrics`, { headers })).text()
  const count = (stage: string) =>
    Number(new RegExp(`^warren_warm_pool_sandboxes\\{stage="${stage}"\\} (\\d+)$`, 'm').exec(text)?.[1])
  const pool = { ready: count('ready'), booting: count('booting') }
  if (!Number.isInteger(pool.ready + pool.booting))
    throw new Error(`The metrics of ${url} do not tell of the warm pool.`)
  return pool
}

type Mode = { mode: string; count: number; apartMs: number }

async function together(
  { name, use }: Interactive,
  { mode, count, apartMs }: Mode,
  signal: AbortSignal,
): Promise<Row[]> {
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
    name: rowName(name, step),
    unit: 'ms',
    samples: values,
    failures: failed,
  })
  const each = row(
    mode,
    uses.map(({ ms }) => ms),
    failures,
  )
  return apartMs === 0 ? [each, row(untilLast(mode), [lastMs], [])] : [each]
}
