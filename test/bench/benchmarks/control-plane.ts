/**
 * What the control plane itself takes with 100, 1,000 and 10,000 sandboxes that run, and as many that have ended: the
 * domain as the server joins it, over SQLite and PostgreSQL, on a machine that is not real.
 */

import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { monitorEventLoopDelay } from 'node:perf_hooks'
import { setImmediate } from 'node:timers/promises'
import { sql } from 'kysely'
import { openRules } from '../../../src/core/ports/egress.ts'
import type { NewSandbox } from '../../../src/core/sandbox/row/sandbox.ts'
import { noAgent } from '../../../src/drivers/driver-fixture.ts'
import { FakeDriver } from '../../../src/drivers/fake/fake-driver.ts'
import { openDatabase } from '../../../src/store/open-stores.ts'
import { newSandboxRow, pairHashes } from '../../../src/store/sandbox/sandbox-row.ts'
import { aSandbox, vault } from '../../../src/store/suite/rows.ts'
import { type Fixture, openFixture, request } from '../../support/domain.ts'
import { postgresMissing, startPostgres } from '../../support/postgres.ts'
import type { BenchMachine } from '../bench-machine.ts'
import { percentile, type Row, rowName, timed } from '../measure.ts'
import { medianOf, type Report, type Target } from '../report.ts'

const counts = [100, 1000, 10_000] as const
const fewest = counts[0]
const max = counts[2]
const nodeID = 'bench'
/** Rows of one insert: SQLite takes 32,766 values at once. */
const rowsPerInsert = 500
/** The sandboxes of one user among all that a program of the team made. */
const perUser = 10
const longestWait = 'reconcile, longest wait of others'
/** What one page of a list takes on a busy machine. */
const maxWaitMs = 20
const triesPerRound = 60

type Engine = { name: string; newUrl: () => Promise<string | undefined> }
type Samples = Record<string, number[]>

export async function controlPlane(machine: BenchMachine, { rounds }: { rounds: number }): Promise<Report> {
  const postgres = postgresMissing() === undefined ? await startPostgres({ durable: true }) : undefined
  const engines: Engine[] = [{ name: 'SQLite', newUrl: async () => undefined }]
  if (postgres) engines.push({ name: 'PostgreSQL', newUrl: () => postgres.createDatabase() })
  const rows: Row[] = []
  try {
    for (const { name, newUrl } of engines) {
      for (const count of counts) {
        machine.signal.throwIfAborted()
        machine.say(`  ${name}, ${count} sandboxes`)
        const samples = await measure(await newUrl(), count, triesPerRound * rounds)
        for (const [step, found] of Object.entries(samples))
          rows.push({ name: rowName(sized(name, count), step), unit: 'ms', samples: found, failures: [] })
      }
    }
  } finally {
    await postgres?.stop()
  }
  return { title: 'Control plane: with so many sandboxes that run', rows, targets: targets(rows) }
}

const sized = (engine: string, count: number): string => `${engine}, ${count.toLocaleString('en')}`

/** Flat: what is measured in microseconds may double by chance. */
function targets(rows: Row[]): Target[] {
  const p99 = (name: string) => percentile(rows.find((row) => row.name === name)?.samples ?? [], 99)
  return rows.flatMap(({ name }) => {
    const [folder, step] = name.split(' · ') as [string, string]
    const engine = folder.split(',')[0]!
    if (folder !== sized(engine, max)) return []
    // With a hundred nobody waits at all.
    if (step === longestWait)
      return [{ promise: name, value: medianOf({ rows }, name), atMost: maxWaitMs, unit: ' ms' }]
    const value = p99(name) / p99(rowName(sized(engine, fewest), step))
    return [{ promise: `${engine}, ${step}: p99 of 10,000 against 100`, value, atMost: 2, unit: ' ×' }]
  })
}

async function measure(url: string | undefined, count: number, tries: number): Promise<Samples> {
  const folder = mkdtempSync(join(tmpdir(), 'warren-bench-'))
  const driver = new FakeDriver()
  await using fixture = await openFixture({
    folder,
    nodeID,
    world: driver.world,
    onDisk: true,
    ...(url && { url }),
    admission: { cpuOvercommit: 1e6, memoryOvercommit: 1e6 },
  })
  try {
    const team = { ...fixture.team, limits: { ...fixture.team.limits, ...unlimited } }
    await fillDatabase({ ...fixture, team, driver }, { url, folder, count })
    const samples: Samples = {}
    for (const [step, work] of Object.entries(stepsOf({ ...fixture, team }))) {
      const found: number[] = []
      for (let index = -Math.ceil(tries / 10); index < tries; index++) {
        const [ms] = await timed(() => work(index))
        if (index >= 0) found.push(ms)
      }
      samples[step] = found
    }
    return { ...samples, ...(await measureReconcile(fixture, count)) }
  } finally {
    rmSync(folder, { recursive: true, force: true })
  }
}

const unlimited = { maxSandboxes: 1e6, maxCPU: 1e7, maxMemoryMB: 1e9 }

function stepsOf({
  service,
  stores,
  team,
  clock,
}: Fixture): Record<string, (index: number) => Promise<unknown>> {
  const { sandboxes } = stores
  const states = ['running', 'snapshotting', 'pausing', 'paused', 'resuming'] as const
  const filter = { teamID: team.teamID, states }
  const page = { order: 'desc', limit: 101 } as const
  const made: string[] = []
  const last = { startedAt: clock.now() - 50, sandboxID: 'i' }
  return {
    create: async () => void made.push((await service.create(team, request())).sandboxID),
    'set-timeout': (index) => service.setTimeout(team, made[Math.abs(index) % made.length]!, 60_000),
    kill: () => service.kill(team, made.pop()!),
    'list, first page': () => service.list(filter, page),
    'list, a later page': () => service.list(filter, { ...page, after: last }),
    'list by metadata that 10 have': (index) =>
      service.list({ ...filter, metadata: { user: String(Math.abs(index) % 10) } }, page),
    'list by metadata that all have': () => service.list({ ...filter, metadata: { app: 'agents' } }, page),
    'count of those that run': () => sandboxes.count(filter),
    'expiry, with nothing due': async () => {
      await sandboxes.listExpired(clock.now(), 'kill', 50)
      await sandboxes.nextEnd('kill')
    },
  }
}

/** The whole of it grows with what there is; each sandbox must not, nor how long everybody else has to wait. */
async function measureReconcile({ reconciler }: Fixture, count: number): Promise<Samples> {
  const [each, blocked]: [number[], number[]] = [[], []]
  for (let round = 0; round < 5; round++) {
    const delays = monitorEventLoopDelay({ resolution: 1 })
    delays.enable()
    await setImmediate()
    const [ms] = await timed(() => reconciler.run())
    delays.disable()
    each.push(ms / count)
    blocked.push(delays.max / 1e6)
  }
  return { 'reconcile, each sandbox': each, [longestWait]: blocked }
}

async function fillDatabase(
  { team, driver, clock }: Pick<Fixture, 'team' | 'driver' | 'clock'>,
  { url, folder, count }: { url: string | undefined; folder: string; count: number },
): Promise<void> {
  const db = await openDatabase({ url, dataFolder: folder, vault })
  await driver.prepare('/root')
  for (let first = 0; first < 2 * count; first += rowsPerInsert) {
    const numbers = Array.from({ length: Math.min(rowsPerInsert, 2 * count - first) }, (_, at) => first + at)
    const rows = await Promise.all(
      numbers.map(async (number) => {
        const sandbox = sandboxOfUser(team.teamID, number, count, clock.now())
        if (number >= count) return { ...newSandboxRow(sandbox, nodeID, vault), ...ended(clock.now()) }
        const handle = await driver.start({
          ...sandbox,
          rootFolder: '/root',
          agent: noAgent,
          egress: openRules,
        })
        const state = 'running' as const
        return { ...newSandboxRow(sandbox, nodeID, vault), state, handle: JSON.stringify(handle) }
      }),
    )
    await db.insertInto('sandboxes').values(rows).execute()
    const pairs = rows.flatMap(({ id, metadata }) =>
      pairHashes(JSON.parse(metadata)).map((hash) => ({ sandbox_id: id, pair_hash: hash })),
    )
    await db.insertInto('sandbox_metadata').values(pairs).execute()
  }
  // PostgreSQL does so by itself within a minute; SQLite needs no statistics for these statements.
  if (url) await sql`analyze`.execute(db)
  await db.destroy()
}

const ended = (now: number) => ({ state: 'ended' as const, ended_at: now, end_reason: 'killed' as const })

function sandboxOfUser(teamID: string, number: number, count: number, now: number): NewSandbox {
  const startedAt = now - number
  return aSandbox(teamID, {
    templateID: 'basetemplate',
    buildID: '11111111-1111-4111-8111-111111111111',
    metadata: { app: 'agents', user: String(Math.floor((number % count) / perUser)) },
    timeoutMs: 3_600_000,
    createdAt: startedAt,
    startedAt,
    endAt: now + 3_600_000 + number,
  })
}
