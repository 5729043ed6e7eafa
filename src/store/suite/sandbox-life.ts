import assert from 'node:assert/strict'
import {
  activeStates,
  legalTransitions,
  returningStates,
  type SandboxState,
} from '../../core/sandbox/row/sandbox.ts'
import { defaultTeamLimits } from '../../core/team/team.ts'
import { isAppError } from '../../lib/app-error.ts'
import { newUUID } from '../../lib/ids.ts'
import { aSandbox, insertSandbox, insertSandboxIn, insertTeam, time } from './rows.ts'
import { networkWithSecrets } from './sealing.ts'
import type { StoreTest } from './store-test.ts'

const allStates = Object.keys(legalTransitions) as SandboxState[]
const handle = { driver: 'fake', version: 1, data: { pid: 7, name: 'x', live: true } }

export function sandboxLifeSuite(storeTest: StoreTest): void {
  limits(storeTest)
  claims(storeTest)
  transitions(storeTest)
  optionChanges(storeTest)
  endings(storeTest)
}

function optionChanges(storeTest: StoreTest): void {
  storeTest('the options of a sandbox change only while that run is running', async (stores) => {
    const team = await insertTeam(stores)
    const sandbox = aSandbox(team.teamID)
    const { sandboxID, runID } = sandbox
    const options = { ...sandbox.options, network: { denyOut: ['1.2.3.4'] }, allowInternetAccess: false }
    await stores.sandboxes.insertWithinLimits(sandbox, team.limits)
    assert.equal(await stores.sandboxes.setOptions({ ...sandbox, version: 0 }, options), undefined)
    const running = (await stores.sandboxes.transition({ sandboxID, runID, from: ['creating'] }, 'running'))!
    assert.equal(await stores.sandboxes.setOptions({ ...running, runID: 'another run' }, options), undefined)
    assert.deepEqual((await stores.sandboxes.setOptions(running, options))?.options, options)
    assert.equal(await stores.sandboxes.setOptions(running, sandbox.options), undefined, 'an earlier version')
    assert.deepEqual((await stores.sandboxes.find(sandboxID))?.options, options)
    const pausing = (await stores.sandboxes.transition({ sandboxID, runID, from: ['running'] }, 'pausing'))!
    assert.equal(await stores.sandboxes.setOptions(pausing, sandbox.options), undefined)
  })
}

function limits(storeTest: StoreTest): void {
  storeTest('a new sandbox is creating, and is read back unchanged', async (stores) => {
    const team = await insertTeam(stores)
    const sandbox = aSandbox(team.teamID, {
      alias: null,
      metadata: { 'k y': 'v&="\'', ünï: '🐇' },
      envVars: { PATH: '/bin' },
      options: {
        allowInternetAccess: false,
        network: { ...networkWithSecrets, dnsServers: null },
        autoPause: true,
        autoPauseMemory: false,
        autoResume: false,
        secure: true,
      },
    })
    assert.deepEqual(await stores.sandboxes.insertWithinLimits(sandbox, team.limits), { inserted: true })
    const begun = {
      state: 'creating',
      transitionID: null,
      runUntil: null,
      handle: null,
      snapshot: null,
      endedAt: null,
      endReason: null,
      version: 0,
    }
    assert.deepEqual(await stores.sandboxes.find(sandbox.sandboxID), { ...sandbox, ...begun })
    assert.equal(await stores.sandboxes.find('nothing'), undefined)
  })

  storeTest(
    '50 parallel creates with a limit of 10 insert exactly 10, also if some exist',
    async (stores) => {
      const team = await insertTeam(stores)
      const insertFifty = (maxSandboxes: number) => {
        const limits = { ...defaultTeamLimits, maxSandboxes }
        const sandboxes = Array.from({ length: 50 }, () => aSandbox(team.teamID))
        return Promise.all(sandboxes.map((sandbox) => stores.sandboxes.insertWithinLimits(sandbox, limits)))
      }
      // Limits below the number of connections: each create that runs unlocked beside another would pass.
      for (const [maxSandboxes, free] of [
        [3, 3],
        [10, 7],
        [10, 0],
      ] as const) {
        const results = await insertFifty(maxSandboxes)
        assert.equal(results.filter(({ inserted }) => inserted).length, free)
        const refused = results.filter(({ inserted }) => !inserted)
        for (const result of refused) assert.deepEqual(result, { inserted: false, exceeded: 'maxSandboxes' })
        assert.equal(await stores.sandboxes.count({ teamID: team.teamID, states: allStates }), maxSandboxes)
      }
    },
  )

  storeTest('a limit may be reached exactly; CPU and memory are sums', async (stores) => {
    const team = await insertTeam(stores)
    const insert = (cpuCount: number, memoryMB: number) =>
      stores.sandboxes.insertWithinLimits(aSandbox(team.teamID, { cpuCount, memoryMB }), {
        ...defaultTeamLimits,
        maxCPU: 4,
        maxMemoryMB: 1000,
      })
    assert.deepEqual(await insert(3, 400), { inserted: true })
    assert.deepEqual(await insert(2, 100), { inserted: false, exceeded: 'maxCPU' })
    assert.deepEqual(await insert(1, 601), { inserted: false, exceeded: 'maxMemoryMB' })
    assert.deepEqual(await insert(1, 600), { inserted: true })
  })

  for (const state of allStates) {
    const counts = activeStates.includes(state)
    storeTest(
      `a sandbox that is ${state} ${counts ? 'counts' : 'does not count'} against the limits`,
      async (stores) => {
        const team = await insertTeam(stores)
        await insertSandboxIn(stores, team.teamID, state)
        const oneOnly = { ...defaultTeamLimits, maxSandboxes: 1 }
        const result = await stores.sandboxes.insertWithinLimits(aSandbox(team.teamID), oneOnly)
        assert.equal(result.inserted, !counts)
      },
    )
  }

  storeTest('the sandboxes of one team do not count against another', async (stores) => {
    const team = await insertTeam(stores)
    const other = await insertTeam(stores)
    await insertSandbox(stores, other.teamID)
    const oneOnly = { ...defaultTeamLimits, maxSandboxes: 1 }
    assert.ok((await stores.sandboxes.insertWithinLimits(aSandbox(team.teamID), oneOnly)).inserted)
  })

  storeTest('a sandbox of an unknown team is rejected with not_found', async ({ sandboxes }) => {
    const insert = sandboxes.insertWithinLimits(aSandbox('nobody'), defaultTeamLimits)
    await assert.rejects(insert, (error) => isAppError(error, 'not_found'))
  })

  storeTest('texts with NUL are rejected with invalid_argument and nothing is inserted', async (stores) => {
    const team = await insertTeam(stores)
    const sandbox = aSandbox(team.teamID, { alias: 'a\0b' })
    const insert = stores.sandboxes.insertWithinLimits(sandbox, defaultTeamLimits)
    await assert.rejects(insert, (error) => isAppError(error, 'invalid_argument'))
    assert.equal(await stores.sandboxes.find(sandbox.sandboxID), undefined)
  })
}

function claims(storeTest: StoreTest): void {
  storeTest(
    'parallel creates with one idempotency key insert one sandbox, and all get its id',
    async (stores) => {
      const team = await insertTeam(stores)
      const claim = { key: 'k'.repeat(9000), requestHash: 'request' }
      const tries = Array.from({ length: 10 }, () => aSandbox(team.teamID))
      const results = await Promise.all(
        tries.map((sandbox) => stores.sandboxes.insertWithinLimits(sandbox, defaultTeamLimits, claim)),
      )
      const winner = tries[results.findIndex(({ inserted }) => inserted)]!
      const earlier = { requestHash: 'request', sandboxID: winner.sandboxID }
      const others = results.filter(({ inserted }) => !inserted)
      assert.equal(others.length, 9)
      for (const result of others) assert.deepEqual(result, { inserted: false, earlier })
      assert.equal(await stores.sandboxes.count({ teamID: team.teamID, states: allStates }), 1)
    },
  )

  storeTest('a known key returns the earlier request, even if the limit is reached', async (stores) => {
    const team = await insertTeam(stores)
    const oneOnly = { ...defaultTeamLimits, maxSandboxes: 1 }
    const first = aSandbox(team.teamID)
    await stores.sandboxes.insertWithinLimits(first, oneOnly, { key: 'k', requestHash: 'first' })
    const again = { key: 'k', requestHash: 'second' }
    assert.deepEqual(await stores.sandboxes.insertWithinLimits(aSandbox(team.teamID), oneOnly, again), {
      inserted: false,
      earlier: { requestHash: 'first', sandboxID: first.sandboxID },
    })
  })

  storeTest('a rejected create leaves its key free', async (stores) => {
    const team = await insertTeam(stores)
    const claim = { key: 'k', requestHash: 'r' }
    const none = { ...defaultTeamLimits, maxSandboxes: 0 }
    assert.ok(!(await stores.sandboxes.insertWithinLimits(aSandbox(team.teamID), none, claim)).inserted)
    assert.ok(
      (await stores.sandboxes.insertWithinLimits(aSandbox(team.teamID), defaultTeamLimits, claim)).inserted,
    )
  })

  storeTest('teams may use the same key, and a released key is free again', async (stores) => {
    const team = await insertTeam(stores)
    const other = await insertTeam(stores)
    const claim = { key: 'k', requestHash: 'r' }
    const insert = (teamID: string) => {
      const sandbox = aSandbox(teamID)
      return stores.sandboxes
        .insertWithinLimits(sandbox, defaultTeamLimits, claim)
        .then(({ inserted }) => ({ inserted, sandboxID: sandbox.sandboxID }))
    }
    const mine = await insert(team.teamID)
    assert.ok(mine.inserted)
    assert.ok((await insert(other.teamID)).inserted)
    await stores.sandboxes.releaseClaim(other.teamID, mine.sandboxID)
    assert.ok(!(await insert(team.teamID)).inserted)
    await stores.sandboxes.releaseClaim(team.teamID, mine.sandboxID)
    assert.ok((await insert(team.teamID)).inserted)
    assert.ok(!(await insert(other.teamID)).inserted)
  })
}

function transitions(storeTest: StoreTest): void {
  storeTest('exactly the legal transitions are made, and all others are rejected', async (stores) => {
    const team = await insertTeam(stores)
    for (const from of allStates) {
      for (const to of allStates) {
        const { sandboxID, runID } = await insertSandboxIn(stores, team.teamID, from)
        const ending = to === 'ended' ? { endedAt: time, endReason: 'killed' as const } : {}
        const transition = stores.sandboxes.transition({ sandboxID, runID, from: [from] }, to, ending)
        const needsStored = to === 'paused' && returningStates.includes(from)
        if (legalTransitions[from].includes(to) && !needsStored) assert.equal((await transition)?.state, to)
        else await assert.rejects(transition, (error) => isAppError(error, 'internal'), `${from} to ${to}`)
      }
    }
  })

  storeTest('a move is made only in its run and from its states', async (stores) => {
    const team = await insertTeam(stores)
    const { sandboxID, runID } = await insertSandbox(stores, team.teamID)
    const { sandboxes } = stores
    assert.equal(
      await sandboxes.transition({ sandboxID, runID: newUUID(), from: ['creating'] }, 'running'),
      undefined,
    )
    assert.equal(await sandboxes.transition({ sandboxID, runID, from: ['pausing'] }, 'running'), undefined)
    assert.equal(
      await sandboxes.transition({ sandboxID: 'nothing', runID, from: ['creating'] }, 'running'),
      undefined,
    )
    assert.equal((await sandboxes.find(sandboxID))?.state, 'creating')
    assert.equal(
      (await sandboxes.transition({ sandboxID, runID, from: ['pausing', 'creating'] }, 'running'))?.state,
      'running',
    )
  })

  storeTest('a move for an expired timeout is made only while the timeout is unchanged', async (stores) => {
    const { sandboxes } = stores
    const team = await insertTeam(stores)
    const { sandboxID, runID, endAt } = await insertSandboxIn(stores, team.teamID, 'running')
    await sandboxes.setEnd({ sandboxID, runID }, endAt + 1, false)
    const at = { sandboxID, runID, from: ['running'] as const }
    assert.equal(await sandboxes.transition({ ...at, endAt }, 'killing'), undefined)
    const named = { transitionID: 'the move', at: time }
    const transitioned = await sandboxes.transition({ ...at, endAt: endAt + 1 }, 'killing', {}, named)
    assert.deepEqual([transitioned?.state, transitioned?.transitionID], ['killing', 'the move'])
    assert.equal((await sandboxes.find(sandboxID))?.transitionID, 'the move')
  })

  storeTest('of parallel moves from one state, one wins', async (stores) => {
    const team = await insertTeam(stores)
    const { sandboxID, runID } = await insertSandboxIn(stores, team.teamID, 'running')
    const tries = Array.from({ length: 10 }, (_, index) =>
      stores.sandboxes.transition({ sandboxID, runID, from: ['running'] }, index % 2 ? 'killing' : 'pausing'),
    )
    const won = (await Promise.all(tries)).filter((sandbox) => sandbox !== undefined)
    assert.equal(won.length, 1)
    assert.equal((await stores.sandboxes.find(sandboxID))?.state, won[0]!.state)
  })

  storeTest('a move carries its changes, and a new run excludes the older one', async (stores) => {
    const { sandboxes } = stores
    const team = await insertTeam(stores)
    const { sandboxID, runID } = await insertSandboxIn(stores, team.teamID, 'paused')
    const changes = { runID: newUUID(), handle, startedAt: time + 1, endAt: time + 2 }
    const resuming = await sandboxes.transition({ sandboxID, runID, from: ['paused'] }, 'resuming', changes)
    assert.deepEqual(resuming, await sandboxes.find(sandboxID))
    assert.partialDeepStrictEqual(resuming, { ...changes, state: 'resuming' })
    assert.equal(await sandboxes.transition({ sandboxID, runID, from: ['resuming'] }, 'killing'), undefined)
    const resumed = { sandboxID, runID: changes.runID, from: ['resuming'] } as const
    const cleared = await sandboxes.transition(resumed, 'paused', { handle: null })
    assert.equal(cleared?.handle, null)
  })

  storeTest('the end keeps its time and reason, and is rejected without them', async (stores) => {
    const { sandboxes } = stores
    const team = await insertTeam(stores)
    const { sandboxID, runID } = await insertSandboxIn(stores, team.teamID, 'killing')
    const at = { sandboxID, runID, from: ['killing'] as const }
    await assert.rejects(sandboxes.transition(at, 'ended'), (error) => isAppError(error, 'internal'))
    await assert.rejects(sandboxes.transition(at, 'ended', { endedAt: time }), (error) =>
      isAppError(error, 'internal'),
    )
    await sandboxes.transition(at, 'ended', { endedAt: time + 3, endReason: 'lost' })
    const ended = { state: 'ended', endedAt: time + 3, endReason: 'lost' }
    assert.partialDeepStrictEqual(await sandboxes.find(sandboxID), ended)
  })

  storeTest('a handle is stored in its run only, and not after the sandbox has ended', async (stores) => {
    const { sandboxes } = stores
    const team = await insertTeam(stores)
    const { sandboxID, runID } = await insertSandbox(stores, team.teamID)
    assert.equal(await sandboxes.saveHandle(sandboxID, newUUID(), handle), false)
    assert.equal((await sandboxes.find(sandboxID))?.handle, null)
    assert.equal(await sandboxes.saveHandle(sandboxID, runID, handle), true)
    assert.deepEqual((await sandboxes.find(sandboxID))?.handle, handle)
    const ended = await insertSandboxIn(stores, team.teamID, 'ended')
    assert.equal(await sandboxes.saveHandle(ended.sandboxID, ended.runID, handle), false)
  })
}

function endings(storeTest: StoreTest): void {
  storeTest('the end of a running sandbox is set, or only extended', async (stores) => {
    const team = await insertTeam(stores)
    const { sandboxID, runID } = await insertSandboxIn(stores, team.teamID, 'running', { endAt: time + 100 })
    const set = async (at: object, endAt: number, onlyExtend: boolean) =>
      (await stores.sandboxes.setEnd({ sandboxID, runID, ...at }, endAt, onlyExtend))?.endAt
    assert.equal(await set({}, time + 50, true), time + 100)
    assert.equal(await set({}, time + 150, true), time + 150)
    assert.equal(await set({ endAt: time + 150 }, time + 20, false), time + 20)
    assert.equal(await set({ endAt: time + 150 }, time + 10, false), undefined)
    assert.equal((await stores.sandboxes.find(sandboxID))?.endAt, time + 20)
    assert.equal(await set({ runID: newUUID() }, time, false), undefined)
  })

  storeTest('only running sandboxes have a timeout that can be set or that expires', async (stores) => {
    const team = await insertTeam(stores)
    for (const state of allStates.filter((state) => state !== 'running')) {
      const { sandboxID, runID } = await insertSandboxIn(stores, team.teamID, state, { endAt: time })
      assert.equal(await stores.sandboxes.setEnd({ sandboxID, runID }, time + 1, false), undefined, state)
    }
    assert.deepEqual(await stores.sandboxes.listExpired(time + 1, 'kill', 10), [])
    assert.equal(await stores.sandboxes.nextEnd('kill'), undefined)
  })

  storeTest('expired sandboxes are listed earliest first, those of this moment included', async (stores) => {
    const team = await insertTeam(stores)
    const ends = [time + 2, time, time + 1, time + 3]
    const ids: string[] = []
    for (const endAt of ends) {
      ids.push((await insertSandboxIn(stores, team.teamID, 'running', { endAt })).sandboxID)
    }
    const expired = async (limit: number) =>
      (await stores.sandboxes.listExpired(time + 2, 'kill', limit)).map(({ sandboxID }) => sandboxID)
    assert.deepEqual(await expired(10), [ids[1], ids[2], ids[0]])
    assert.deepEqual(await expired(2), [ids[1], ids[2]])
    assert.equal(await stores.sandboxes.nextEnd('kill'), time)
  })

  storeTest('sandboxes to pause at their timeout are listed apart from those to kill', async (stores) => {
    const team = await insertTeam(stores)
    const end = async (autoPause: boolean, endAt: number) => {
      const options = { ...aSandbox(team.teamID).options, autoPause }
      return (await insertSandboxIn(stores, team.teamID, 'running', { endAt, options })).sandboxID
    }
    const [killed, paused] = [await end(false, time + 1), await end(true, time)]
    for (const [kind, sandboxID, endAt] of [
      ['kill', killed, time + 1],
      ['pause', paused, time],
    ] as const) {
      const expired = await stores.sandboxes.listExpired(time + 5, kind, 10)
      assert.deepEqual(
        expired.map((row) => row.sandboxID),
        [sandboxID],
      )
      assert.equal(await stores.sandboxes.nextEnd(kind), endAt)
    }
  })

  storeTest('pruning removes old ended rows and keys, and nothing else', async (stores) => {
    const { sandboxes } = stores
    const team = await insertTeam(stores)
    const inState = (state: SandboxState, endedAt = time) =>
      insertSandboxIn(stores, team.teamID, state, { metadata: { a: 'b' } }, { endedAt, endReason: 'killed' })
    const old = await inState('ended', time - 1)
    const recent = await inState('ended', time)
    const paused = await inState('paused')
    const claim = (key: string) => ({ key, requestHash: 'r' })
    const insert = async (key: string, createdAt: number) =>
      (
        await sandboxes.insertWithinLimits(
          aSandbox(team.teamID, { createdAt }),
          defaultTeamLimits,
          claim(key),
        )
      ).inserted
    assert.ok(await insert('old', time - 1))
    assert.ok(await insert('recent', time))

    assert.equal(await sandboxes.prune(time), 1)
    assert.equal(await sandboxes.find(old.sandboxID), undefined)
    assert.ok(await sandboxes.find(recent.sandboxID))
    assert.ok(await sandboxes.find(paused.sandboxID))
    assert.ok(await insert('old', time))
    assert.ok(!(await insert('recent', time)))
    assert.equal(await sandboxes.prune(time), 0)
  })
}
