/** The counts that limits and admission use must agree with the rows. */
import assert from 'node:assert/strict'
import { activeStates, type Sandbox, type SandboxState } from '../../core/sandbox/row/sandbox.ts'
import { defaultTeamLimits } from '../../core/team/team.ts'
import { newUUID } from '../../lib/ids.ts'
import type { Stores } from '../stores.ts'
import { aSandbox, aSnapshot, insertPaused, insertSandboxIn, insertTeam, time } from './rows.ts'
import type { StoreTest } from './store-test.ts'

const unended: readonly SandboxState[] = [...activeStates, 'paused']
const notStarting: readonly SandboxState[] = ['running', 'pausing', 'snapshotting', 'killing']

export function sandboxCountSuite(storeTest: StoreTest): void {
  storeTest('GPUs of a team are summed over its active sandboxes', async (stores) => {
    const team = await insertTeam(stores)
    const insert = (gpuCount: number) =>
      stores.sandboxes.insertWithinLimits(aSandbox(team.teamID, { gpuCount }), {
        ...defaultTeamLimits,
        maxGPUs: 3,
      })
    assert.deepEqual(await insert(2), { inserted: true })
    assert.deepEqual(await insert(2), { inserted: false, exceeded: 'maxGPUs' })
    assert.deepEqual(await insert(0), { inserted: true })
    assert.deepEqual(await insert(1), { inserted: true })
  })

  storeTest('the counters agree with the rows after every kind of change', async (stores) => {
    const { sandboxes } = stores
    const { teamID } = await insertTeam(stores)
    const other = await insertTeam(stores)
    await insertSandboxIn(stores, other.teamID, 'running', { cpuCount: 4, memoryMB: 2000 })
    const ended: Sandbox[] = []
    for (const state of [...unended, 'ended'] as const) {
      const sandbox = await insertSandboxIn(stores, teamID, state, { cpuCount: 1, memoryMB: 100 })
      if (state === 'ended') ended.push(sandbox)
      await agree(stores, teamID)
    }
    const frozen = await insertPaused(stores, teamID, aSnapshot({ frozen: true }), { memoryMB: 300 })
    await agree(stores, teamID)
    await sandboxes.setSnapshot(frozen, aSnapshot())
    await agree(stores, teamID)
    const thawed = (await sandboxes.find(frozen.sandboxID))!
    await sandboxes.resumeWithinLimits(thawed, defaultTeamLimits, { runID: newUUID() })
    await agree(stores, teamID)
    for (const { sandboxID } of ended) {
      const snapshot = aSnapshot()
      const reason = 'Nothing owned it.'
      await stores.quarantine.insert({
        snapshotName: snapshot.name,
        nodeID: 'here',
        sandboxID,
        reason,
        since: time,
      })
      assert.ok(await sandboxes.reopen(sandboxID, { snapshot, handle: null, runID: newUUID(), endAt: time }))
    }
    await agree(stores, teamID)
    const { sandboxID, runID } = await insertSandboxIn(stores, teamID, 'killing')
    const reason = { endedAt: time, endReason: 'killed' } as const
    await sandboxes.transition({ sandboxID, runID, from: ['killing'] }, 'ended', reason)
    await sandboxes.prune(time + 1)
    await agree(stores, teamID)
  })

  storeTest(
    'moves in opposite directions at once neither fail nor change the counters wrongly',
    async (stores) => {
      const { teamID } = await insertTeam(stores)
      const paused = await Promise.all(
        Array.from({ length: 8 }, () => insertPaused(stores, teamID, aSnapshot(), { memoryMB: 10 })),
      )
      const there: SandboxState[] = paused.map((_, index) => (index % 2 ? 'resuming' : 'paused'))
      const transition = async ({ sandboxID, runID }: Sandbox, index: number) => {
        const from = there[index]!
        const to = from === 'paused' ? 'resuming' : 'paused'
        assert.ok(await stores.sandboxes.transition({ sandboxID, runID, from: [from] }, to))
        there[index] = to
      }
      for (const [index, sandbox] of paused.entries()) {
        if (there[index] === 'resuming') {
          const { sandboxID, runID } = sandbox
          await stores.sandboxes.transition({ sandboxID, runID, from: ['paused'] }, 'resuming')
        }
      }
      for (let round = 0; round < 20; round++) await Promise.all(paused.map(transition))
      await agree(stores, teamID)
    },
  )
}

async function agree({ sandboxes }: Stores, teamID: string): Promise<void> {
  const all = await sandboxes.listUnended(unended)
  const own = all.filter((sandbox) => sandbox.teamID === teamID)
  for (const state of unended) {
    const counted = await sandboxes.count({ teamID, states: [state] })
    assert.equal(counted, own.filter((sandbox) => sandbox.state === state).length, state)
  }
  for (const { state, count } of await sandboxes.countByState()) {
    assert.equal(count, all.filter((sandbox) => sandbox.state === state).length, `of all teams: ${state}`)
  }
  const running = all.filter(({ state }) => notStarting.includes(state))
  const frozen = all.filter(({ state, snapshot }) => state === 'paused' && snapshot?.frozen)
  const { cpuCount, memoryMB } = await sandboxes.sumActive()
  assert.equal(cpuCount, sum(running, 'cpuCount'))
  assert.equal(memoryMB, sum([...running, ...frozen], 'memoryMB'))
  const byTeam = await sandboxes.sumActiveByTeam()
  const ownPart = byTeam.find((one) => one.teamID === teamID)
  const isOwn = (sandbox: Sandbox) => sandbox.teamID === teamID
  assert.equal(ownPart?.cpuCount ?? 0, sum(running.filter(isOwn), 'cpuCount'))
  assert.equal(ownPart?.memoryMB ?? 0, sum([...running, ...frozen].filter(isOwn), 'memoryMB'))
  assert.equal(sum(byTeam, 'memoryMB'), memoryMB)
  const teams = await sandboxes.teamsOf([...all.map(({ sandboxID }) => sandboxID), 'unknown'])
  assert.deepEqual(teams, new Map(all.map((sandbox) => [sandbox.sandboxID, sandbox.teamID])))
}

const sum = (rows: readonly { cpuCount: number; memoryMB: number }[], key: 'cpuCount' | 'memoryMB'): number =>
  rows.reduce((total, row) => total + row[key], 0)
