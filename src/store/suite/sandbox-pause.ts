import assert from 'node:assert/strict'
import {
  activeStates,
  legalTransitions,
  returningStates,
  type Sandbox,
  type SandboxState,
} from '../../core/sandbox/row/sandbox.ts'
import { defaultTeamLimits, type TeamLimits } from '../../core/team/team.ts'
import { newUUID } from '../../lib/ids.ts'
import type { Stores } from '../stores.ts'
import { aSandbox, aSnapshot, insertPaused, insertSandboxIn, insertTeam, time } from './rows.ts'
import type { StoreTest } from './store-test.ts'

const allStates = Object.keys(legalTransitions) as SandboxState[]
const handle = { driver: 'fake', version: 1, data: { pid: 7 } }

export function sandboxPauseSuite(storeTest: StoreTest): void {
  registerSnapshotTests(storeTest)
  resumes(storeTest)
  races(storeTest)
  frozenMemory(storeTest)
}

function resume({ sandboxes }: Stores, sandbox: Sandbox, limits: Partial<TeamLimits> = {}) {
  return sandboxes.resumeWithinLimits(sandbox, { ...defaultTeamLimits, ...limits }, { runID: newUUID() })
}

type Resumed = Awaited<ReturnType<typeof resume>>
const isResumed = (result: Resumed) => 'resumed' in result && result.resumed !== undefined

function registerSnapshotTests(storeTest: StoreTest): void {
  storeTest(
    'a sandbox that runs is paused at once only by its return to a stored snapshot',
    async (stores) => {
      const team = await insertTeam(stores)
      for (const from of returningStates) {
        const { sandboxID, runID } = await insertSandboxIn(stores, team.teamID, from)
        const stored = { runID: newUUID(), at: time, needs: null }
        const changes = { stored, runID: stored.runID }
        const paused = await stores.sandboxes.transition(
          { sandboxID, runID, from: [from] },
          'paused',
          changes,
        )
        assert.deepEqual([paused?.state, paused?.runID], ['paused', stored.runID])
      }
    },
  )

  storeTest(
    'the snapshot of a paused sandbox is read back unchanged, and stays until it is cleared',
    async (stores) => {
      const { sandboxes } = stores
      const { teamID } = await insertTeam(stores)
      const saved = aSnapshot({ memory: false, frozen: true, agentUnresponsive: true })
      const { sandboxID, runID } = await insertPaused(stores, teamID, saved)
      assert.deepEqual((await sandboxes.find(sandboxID))?.snapshot, saved)
      const resuming = await sandboxes.transition({ sandboxID, runID, from: ['paused'] }, 'resuming')
      assert.deepEqual(resuming?.snapshot, saved)
      const running = await sandboxes.transition({ sandboxID, runID, from: ['resuming'] }, 'running', {
        snapshot: null,
      })
      assert.equal(running?.snapshot, null)
      assert.equal((await sandboxes.find(sandboxID))?.snapshot, null)
    },
  )

  storeTest(
    'the snapshot of a row is corrected in that run only, and only while it is paused',
    async (stores) => {
      const { sandboxes } = stores
      const { teamID } = await insertTeam(stores)
      const paused = await insertPaused(stores, teamID, aSnapshot({ frozen: true }))
      const corrected = aSnapshot({ memory: false })
      assert.equal(await sandboxes.setSnapshot({ ...paused, runID: newUUID() }, corrected), undefined)
      assert.equal(await sandboxes.setSnapshot({ ...paused, sandboxID: 'nothing' }, corrected), undefined)
      assert.deepEqual(await sandboxes.find(paused.sandboxID), paused)
      const after = { ...paused, snapshot: corrected, version: paused.version + 1 }
      assert.deepEqual(await sandboxes.setSnapshot(paused, corrected), after)
      assert.deepEqual(await sandboxes.find(paused.sandboxID), after)
      for (const state of allStates.filter((state) => state !== 'paused')) {
        const row = await insertSandboxIn(stores, teamID, state)
        const { sandboxID } = row
        assert.equal(await sandboxes.setSnapshot(row, corrected), undefined, state)
        assert.equal((await sandboxes.find(sandboxID))?.snapshot, null, state)
      }
    },
  )
}

function resumes(storeTest: StoreTest): void {
  storeTest(
    'a resume within the limits moves the row with its changes and keeps the rest',
    async (stores) => {
      const { sandboxes } = stores
      const { teamID } = await insertTeam(stores)
      const paused = await insertPaused(stores, teamID, aSnapshot(), { metadata: { a: 'b' } })
      const changes = { runID: newUUID(), handle, startedAt: time + 1, endAt: time + 2 }
      const result = await sandboxes.resumeWithinLimits(paused, defaultTeamLimits, changes)
      const next = { state: 'resuming', version: paused.version + 1 } as const
      const resuming: Sandbox = { ...paused, ...changes, ...next }
      assert.deepEqual(result, { resumed: resuming })
      assert.deepEqual(await sandboxes.find(paused.sandboxID), resuming)
      const late = { sandboxID: paused.sandboxID, runID: paused.runID, from: ['resuming'] as const }
      assert.equal(await sandboxes.transition(late, 'running'), undefined)
    },
  )

  storeTest('a resume may clear the snapshot of the row', async (stores) => {
    const { teamID } = await insertTeam(stores)
    const paused = await insertPaused(stores, teamID, aSnapshot())
    const changes = { runID: newUUID(), snapshot: null }
    await stores.sandboxes.resumeWithinLimits(paused, defaultTeamLimits, changes)
    assert.equal((await stores.sandboxes.find(paused.sandboxID))?.snapshot, null)
  })

  storeTest(
    'a resume of another run, of no sandbox or from another state changes nothing',
    async (stores) => {
      const { sandboxes } = stores
      const { teamID } = await insertTeam(stores)
      const paused = await insertPaused(stores, teamID, aSnapshot())
      assert.deepEqual(await resume(stores, { ...paused, runID: newUUID() }), { resumed: undefined })
      assert.deepEqual(await resume(stores, { ...paused, sandboxID: 'nothing' }), { resumed: undefined })
      assert.deepEqual(await sandboxes.find(paused.sandboxID), paused)
      for (const state of allStates.filter((state) => state !== 'paused')) {
        const sandbox = await insertSandboxIn(stores, teamID, state)
        // Also if no resume would be within the limits: that the row has moved on says more.
        assert.deepEqual(await resume(stores, sandbox, { maxSandboxes: 0 }), { resumed: undefined }, state)
        assert.deepEqual(await sandboxes.find(sandbox.sandboxID), sandbox)
      }
    },
  )

  storeTest(
    'a resume counts like a create, limit by limit, and leaves a rejected row unchanged',
    async (stores) => {
      const { teamID } = await insertTeam(stores)
      await insertSandboxIn(stores, teamID, 'running', { cpuCount: 3, memoryMB: 400 })
      const other = await insertTeam(stores)
      await insertSandboxIn(stores, other.teamID, 'running', { cpuCount: 8, memoryMB: 4000 })
      const paused = await insertPaused(stores, teamID, aSnapshot(), { cpuCount: 2, memoryMB: 600 })
      assert.deepEqual(await resume(stores, paused, { maxSandboxes: 1 }), { exceeded: 'maxSandboxes' })
      assert.deepEqual(await resume(stores, paused, { maxCPU: 4 }), { exceeded: 'maxCPU' })
      assert.deepEqual(await resume(stores, paused, { maxMemoryMB: 999 }), { exceeded: 'maxMemoryMB' })
      assert.deepEqual(await stores.sandboxes.find(paused.sandboxID), paused)
      assert.ok(isResumed(await resume(stores, paused, { maxSandboxes: 2, maxCPU: 5, maxMemoryMB: 1000 })))
    },
  )
}

function races(storeTest: StoreTest): void {
  const insertMany = (stores: Stores, teamID: string, count: number, frozen = false) =>
    Promise.all(Array.from({ length: count }, () => insertPaused(stores, teamID, aSnapshot({ frozen }))))
  const countActive = ({ sandboxes }: Stores, teamID: string) =>
    sandboxes.count({ teamID, states: activeStates })

  storeTest('parallel resumes do not exceed a limit together', async (stores) => {
    const { teamID } = await insertTeam(stores)
    let paused = await insertMany(stores, teamID, 30)
    // Limits below the number of connections: each resume that runs unlocked beside another would pass.
    for (const maxSandboxes of [3, 8]) {
      const results = await Promise.all(paused.map((sandbox) => resume(stores, sandbox, { maxSandboxes })))
      for (const result of results.filter((result) => !isResumed(result))) {
        assert.deepEqual(result, { exceeded: 'maxSandboxes' })
      }
      assert.equal(await countActive(stores, teamID), maxSandboxes)
      paused = paused.filter((_, index) => !isResumed(results[index]!))
      assert.equal(paused.length, 30 - maxSandboxes)
    }
  })

  storeTest('parallel resumes and creates do not exceed a limit together', async (stores) => {
    const { teamID } = await insertTeam(stores)
    const paused = await insertMany(stores, teamID, 20)
    const limits = { ...defaultTeamLimits, maxMemoryMB: 512 * 5 }
    const all = paused.flatMap((sandbox) => [
      resume(stores, sandbox, limits).then(isResumed),
      stores.sandboxes.insertWithinLimits(aSandbox(teamID), limits).then(({ inserted }) => inserted),
    ])
    assert.equal((await Promise.all(all)).filter((passed) => passed).length, 5)
    assert.equal(await countActive(stores, teamID), 5)
  })

  storeTest(
    'of parallel resumes of one sandbox, one wins, and the others learn that it has moved',
    async (stores) => {
      const { teamID } = await insertTeam(stores)
      const paused = await insertPaused(stores, teamID, aSnapshot())
      const tries = Array.from({ length: 10 }, () => resume(stores, paused, { maxSandboxes: 1 }))
      const results = await Promise.all(tries)
      const lost = results.filter((result) => !isResumed(result))
      assert.equal(lost.length, 9)
      for (const result of lost) assert.deepEqual(result, { resumed: undefined })
      const won = results.find(isResumed)
      assert.deepEqual(won, { resumed: await stores.sandboxes.find(paused.sandboxID) })
    },
  )

  storeTest('a resume and a kill of one sandbox do not both win', async (stores) => {
    const { teamID } = await insertTeam(stores)
    for (const [index, paused] of (await insertMany(stores, teamID, 30)).entries()) {
      const { sandboxID, runID } = paused
      const resuming = resume(stores, paused)
      // Each kill comes some statements later than the previous one, to fall between those of the resume.
      for (let later = 0; later < index % 10; later++) await stores.sandboxes.find(sandboxID)
      const killed = await stores.sandboxes.transition({ sandboxID, runID, from: ['paused'] }, 'killing')
      const resumed = await resuming
      assert.notEqual(isResumed(resumed), killed !== undefined)
      const state = (await stores.sandboxes.find(sandboxID))?.state
      assert.equal(state, killed ? 'killing' : 'resuming')
    }
  })

  storeTest('parallel resumes of frozen sandboxes count the memory of each once', async (stores) => {
    const { teamID } = await insertTeam(stores)
    const paused = await insertMany(stores, teamID, 6, true)
    const results = await Promise.all(
      paused.map((sandbox) => resume(stores, sandbox, { maxMemoryMB: 512 * 6 })),
    )
    assert.deepEqual(
      results.map(isResumed),
      paused.map(() => true),
    )
  })
}

function frozenMemory(storeTest: StoreTest): void {
  const create = async ({ sandboxes }: Stores, teamID: string, limits: Partial<TeamLimits>) => {
    const all = { ...defaultTeamLimits, ...limits }
    const result = await sandboxes.insertWithinLimits(aSandbox(teamID, { memoryMB: 400 }), all)
    return 'exceeded' in result ? result.exceeded : result.inserted
  }

  storeTest(
    'a frozen sandbox counts against a create with its memory, but not as a sandbox and not with its CPUs',
    async (stores) => {
      const { teamID } = await insertTeam(stores)
      await insertPaused(stores, teamID, aSnapshot({ frozen: true }), { memoryMB: 600 })
      assert.equal(await create(stores, teamID, { maxMemoryMB: 999 }), 'maxMemoryMB')
      const justEnough = { maxSandboxes: 1, maxCPU: 2, maxMemoryMB: 1000 }
      assert.equal(await create(stores, teamID, justEnough), true)
    },
  )

  storeTest(
    'a frozen sandbox’s memory counts against the resume of another sandbox, not against its own',
    async (stores) => {
      const { teamID } = await insertTeam(stores)
      const frozen = await insertPaused(stores, teamID, aSnapshot({ frozen: true }), { memoryMB: 600 })
      const other = await insertPaused(stores, teamID, aSnapshot(), { memoryMB: 500 })
      const limits = { maxMemoryMB: 1000 }
      assert.deepEqual(await resume(stores, other, limits), { exceeded: 'maxMemoryMB' })
      assert.ok(isResumed(await resume(stores, frozen, limits)))
      assert.deepEqual(await resume(stores, other, limits), { exceeded: 'maxMemoryMB' })
    },
  )

  storeTest('frozen sandboxes of one team do not count against another team', async (stores) => {
    const other = await insertTeam(stores)
    await insertPaused(stores, other.teamID, aSnapshot({ frozen: true }))
    const { teamID } = await insertTeam(stores)
    assert.equal(await create(stores, teamID, { maxMemoryMB: 400 }), true)
  })

  const releases: [how: string, release: (stores: Stores, sandbox: Sandbox) => Promise<unknown>][] = [
    ['that is no longer frozen', ({ sandboxes }, row) => sandboxes.setSnapshot(row, aSnapshot())],
    [
      'that ended with what was kept of it',
      async ({ sandboxes }, { sandboxID, runID }) => {
        await sandboxes.transition({ sandboxID, runID, from: ['paused'] }, 'killing')
        const ending = { endedAt: time, endReason: 'killed' } as const
        await sandboxes.transition({ sandboxID, runID, from: ['killing'] }, 'ended', ending)
      },
    ],
    [
      'that ran again and was paused with nothing kept',
      async ({ sandboxes }, { sandboxID, runID }) => {
        await sandboxes.transition({ sandboxID, runID, from: ['paused'] }, 'resuming')
        await sandboxes.transition({ sandboxID, runID, from: ['resuming'] }, 'running', { snapshot: null })
        await sandboxes.transition({ sandboxID, runID, from: ['running'] }, 'pausing')
        await sandboxes.transition({ sandboxID, runID, from: ['pausing'] }, 'paused')
      },
    ],
  ]
  for (const [how, release] of releases) {
    storeTest(`a frozen sandbox ${how} frees its memory`, async (stores) => {
      const { teamID } = await insertTeam(stores)
      const frozen = await insertPaused(stores, teamID, aSnapshot({ frozen: true }))
      assert.equal(await create(stores, teamID, { maxMemoryMB: 400 }), 'maxMemoryMB')
      await release(stores, frozen)
      assert.equal(await create(stores, teamID, { maxMemoryMB: 400 }), true)
    })
  }
}
