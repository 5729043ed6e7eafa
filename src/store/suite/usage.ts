import assert from 'node:assert/strict'
import type { DayUsage } from '../../core/usage/usage.ts'
import { noAmounts } from '../../core/usage/usage.ts'
import { isAppError } from '../../lib/app-error.ts'
import { newUUID } from '../../lib/ids.ts'
import type { Stores } from '../stores.ts'
import { livesOf } from './events.ts'
import { aSnapshot, insertSandbox, insertTeam, time } from './rows.ts'
import type { StoreTest } from './store-test.ts'

/** `time` is on this day, at 22:13:20. */
const day = '2023-11-14'
const week = { firstDay: day, lastDay: '2023-11-20' }

/** Of a sandbox with two CPUs and 512 MiB. */
const secondsOf = (seconds: number) => ({
  ...noAmounts,
  runningMs: 1000 * seconds,
  cpuMs: 2000 * seconds,
  memoryMBMs: 512_000 * seconds,
})

/** Three runs: one of two seconds, one of one second, and one that goes on. Returns the team. */
async function threeRuns(stores: Stores): Promise<string> {
  const { teamID } = await insertTeam(stores)
  for (const count of [2, 1]) {
    const sandbox = await insertSandbox(stores, teamID, {
      startedAt: time + 1000,
      cpuCount: 2,
      memoryMB: 512,
    })
    const life = livesOf(stores, sandbox)
    await life.transition('creating', 'running')
    if (count === 2) await life.transition('running', 'pausing')
    if (count === 2) await life.transition('pausing', 'paused', { snapshot: aSnapshot() })
    else await life.transition('running', 'killing')
  }
  const { sandboxID, runID } = await insertSandbox(stores, teamID, {
    startedAt: time + 1000,
    cpuCount: 2,
    memoryMB: 512,
  })
  await livesOf(stores, { sandboxID, runID }).transition('creating', 'running')
  return teamID
}

export function usageSuite(storeTest: StoreTest): void {
  storeTest('finished runs are counted once, and runs that go on until now', async (stores) => {
    const { usage } = stores
    const teamID = await threeRuns(stores)
    const of = { day, teamID, personID: null }
    const read = (now: number) => usage.read({ teamID, ...week, now })
    assert.deepEqual(await read(time + 1000), [{ ...of, ...secondsOf(3) }], 'before they are counted')
    assert.deepEqual(await read(time + 5000), [{ ...of, ...secondsOf(7) }])
    const counts = await Promise.all([usage.countFinishedRuns(1), usage.countFinishedRuns(10)])
    assert.equal(counts[0] + counts[1], 2)
    assert.equal(await usage.countFinishedRuns(10), 0)
    assert.deepEqual(await read(time + 5000), [{ ...of, ...secondsOf(7) }], 'the same when they are counted')
    assert.deepEqual(await usage.read({ ...week, now: time + 1000 }), [{ ...of, ...secondsOf(3) }])
    assert.deepEqual(await usage.read({ teamID: newUUID(), ...week, now: time + 1000 }), [])
  })

  storeTest('runs count for the person who started them', async (stores) => {
    const { teamID } = await insertTeam(stores)
    const changes = { startedAt: time + 1000, ownerPersonID: newUUID() }
    const ended = await insertSandbox(stores, teamID, changes)
    const endedLife = livesOf(stores, ended)
    await endedLife.transition('creating', 'running')
    await endedLife.transition('running', 'killing')
    const going = await insertSandbox(stores, teamID, changes)
    await livesOf(stores, going).transition('creating', 'running')
    const people = async () =>
      (await stores.usage.read({ teamID, ...week, now: time + 3000 })).map(({ personID, runningMs }) => [
        personID,
        runningMs,
      ])
    assert.deepEqual(await people(), [[changes.ownerPersonID, 3000]])
    await stores.usage.countFinishedRuns(10)
    assert.deepEqual(await people(), [[changes.ownerPersonID, 3000]])
  })

  storeTest('what was counted stays when events and sandboxes are pruned', async (stores) => {
    const { usage } = stores
    const teamID = await threeRuns(stores)
    await usage.countFinishedRuns(10)
    await stores.events.prune(time + 100_000, 100)
    await stores.sandboxes.prune(time + 100_000)
    const [counted] = await usage.read({ teamID, ...week, now: time + 1000 })
    assert.equal(counted?.runningMs, 3000)
  })

  storeTest('usage of one day, team and person adds up, and old days are removed', async ({ usage }) => {
    const [teamID, personID] = [newUUID(), newUUID()]
    const one: DayUsage = { day, teamID, personID, ...secondsOf(1), sentBytes: 5, storedMBMs: 7 }
    const service = { ...one, personID: null }
    const later = { ...one, day: '2023-11-15' }
    await usage.add([one, one, service, later])
    await usage.add([one])
    await usage.add([])
    const read = () => usage.read({ teamID, ...week, now: time })
    const three = { ...one, ...secondsOf(3), sentBytes: 15, storedMBMs: 21 }
    assert.deepEqual(await read(), [service, three, later])
    await usage.prune('2023-11-15')
    assert.deepEqual(await read(), [later])
  })

  storeTest('a team has one budget, and loses it when it is deleted', async (stores) => {
    const { usage } = stores
    const { teamID } = await insertTeam(stores)
    assert.equal(await usage.findBudget(teamID), undefined)
    const budget = { teamID, cpuHours: 1.5, gpuHours: 2, sentGB: null }
    // Neither loses what the other changes.
    await Promise.all([
      usage.changeBudget(teamID, { cpuHours: 1.5 }),
      usage.changeBudget(teamID, { gpuHours: 2 }),
    ])
    assert.deepEqual(await usage.findBudget(teamID), budget)
    assert.deepEqual(await usage.changeBudget(teamID, { gpuHours: null }), { ...budget, gpuHours: null })
    assert.deepEqual(await usage.listBudgets(), [{ ...budget, gpuHours: null }])
    await assert.rejects(usage.changeBudget(newUUID(), { cpuHours: 1 }), (error) =>
      isAppError(error, 'not_found'),
    )
    await stores.teams.deleteUnused(teamID)
    assert.deepEqual(await usage.listBudgets(), [])
  })
}
