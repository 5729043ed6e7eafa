import assert from 'node:assert/strict'
import { legalTransitions, type NewSandbox, type SandboxState } from '../../core/sandbox/row/sandbox.ts'
import type { SandboxFilter, SandboxPage } from '../../core/sandbox/row/sandbox-store.ts'
import type { Stores } from '../stores.ts'
import { insertSandbox, insertSandboxIn, insertTeam, time } from './rows.ts'
import type { StoreTest } from './store-test.ts'

const allStates = Object.keys(legalTransitions) as SandboxState[]
const wholeList: SandboxPage = { order: 'desc', limit: 100 }

/** The IDs that a filter finds; list and count must agree. */
async function found({ sandboxes }: Stores, filter: SandboxFilter): Promise<string[]> {
  const rows = await sandboxes.list(filter, wholeList)
  assert.equal(await sandboxes.count(filter), rows.length)
  return rows.map(({ sandboxID }) => sandboxID)
}

export function sandboxListSuite(storeTest: StoreTest): void {
  orderAndPaging(storeTest)
  filters(storeTest)

  storeTest('every row that has not ended is listed for the reconciler, for all teams', async (stores) => {
    const expected: string[] = []
    for (const state of allStates) {
      const team = await insertTeam(stores)
      const { sandboxID } = await insertSandboxIn(stores, team.teamID, state)
      if (state !== 'ended') expected.push(sandboxID)
    }
    const unended = (await stores.sandboxes.listUnended()).map(({ sandboxID }) => sandboxID)
    assert.deepEqual(unended.sort(), expected.sort())
  })
}

function orderAndPaging(storeTest: StoreTest): void {
  const starts: Record<string, number> = { ic: time + 1, ia: time + 1, ie: time, ib: time + 2, id: time + 1 }
  const newestFirst = ['ib', 'ia', 'ic', 'id', 'ie']
  const insertAll = async (stores: Stores) => {
    const { teamID } = await insertTeam(stores)
    for (const [sandboxID, startedAt] of Object.entries(starts)) {
      await insertSandbox(stores, teamID, { sandboxID, startedAt })
    }
    return { teamID, states: allStates }
  }

  for (const order of ['desc', 'asc'] as const) {
    const expected = order === 'desc' ? newestFirst : newestFirst.toReversed()
    storeTest(
      `the list in ${order} order is the same in one page and in pages of any size`,
      async (stores) => {
        const filter = await insertAll(stores)
        for (const limit of [1, 2, 3, 5, 100]) {
          const ids: string[] = []
          let after: SandboxPage['after']
          for (;;) {
            const page = await stores.sandboxes.list(
              filter,
              after ? { order, limit, after } : { order, limit },
            )
            assert.ok(page.length <= limit)
            const last = page.at(-1)
            if (!last) break
            ids.push(...page.map(({ sandboxID }) => sandboxID))
            after = { startedAt: last.startedAt, sandboxID: last.sandboxID }
          }
          assert.deepEqual(ids, expected)
        }
      },
    )
  }

  storeTest(
    'a row that is added or removed between two pages neither repeats nor hides another',
    async (stores) => {
      const filter = await insertAll(stores)
      const first = await stores.sandboxes.list(filter, { order: 'desc', limit: 2 })
      const { startedAt, sandboxID } = first[1]!
      await insertSandbox(stores, filter.teamID, { sandboxID: 'iz', startedAt: time + 9 })
      const rest = await stores.sandboxes.list(filter, {
        order: 'desc',
        limit: 9,
        after: { startedAt, sandboxID },
      })
      assert.deepEqual(
        rest.map((sandbox) => sandbox.sandboxID),
        newestFirst.slice(2),
      )
    },
  )
}

function filters(storeTest: StoreTest): void {
  storeTest('a team sees only its own sandboxes', async (stores) => {
    const { teamID } = await insertTeam(stores)
    const other = await insertTeam(stores)
    const mine = await insertSandbox(stores, teamID, { metadata: { a: 'b' } })
    await insertSandbox(stores, other.teamID, { metadata: { a: 'b' } })
    assert.deepEqual(await found(stores, { teamID, states: allStates }), [mine.sandboxID])
    assert.deepEqual(await found(stores, { teamID, states: allStates, metadata: { a: 'b' } }), [
      mine.sandboxID,
    ])
  })

  storeTest('only the requested states are listed, and none if none is requested', async (stores) => {
    const { teamID } = await insertTeam(stores)
    const ids = new Map<SandboxState, string>()
    for (const state of allStates) ids.set(state, (await insertSandboxIn(stores, teamID, state)).sandboxID)
    for (const state of allStates)
      assert.deepEqual(await found(stores, { teamID, states: [state] }), [ids.get(state)])
    const both = await found(stores, { teamID, states: ['running', 'paused'] })
    assert.deepEqual(both.sort(), [ids.get('running'), ids.get('paused')].sort())
    assert.deepEqual(await found(stores, { teamID, states: [] }), [])
  })

  storeTest('the template filter and the inclusive start filter combine with the others', async (stores) => {
    const { teamID } = await insertTeam(stores)
    const insert = (changes: Partial<NewSandbox>) => insertSandbox(stores, teamID, changes)
    await insert({ templateID: 't1', startedAt: time - 1 })
    const atTime = await insert({ templateID: 't1', startedAt: time })
    const otherTemplate = await insert({ templateID: 't2', startedAt: time + 1 })
    const all = { teamID, states: allStates }
    assert.deepEqual(await found(stores, { ...all, startedAfter: time }), [
      otherTemplate.sandboxID,
      atTime.sandboxID,
    ])
    assert.deepEqual(await found(stores, { ...all, startedAfter: time, templateID: 't1' }), [
      atTime.sandboxID,
    ])
    assert.deepEqual(await found(stores, { ...all, templateID: 't3' }), [])
  })

  storeTest('metadata matches if every pair is present exactly', async (stores) => {
    const { teamID } = await insertTeam(stores)
    const insert = async (metadata: Record<string, string>) =>
      (await insertSandbox(stores, teamID, { metadata })).sandboxID
    const both = await insert({ app: 'prod', user: 'ann' })
    const annOnly = await insert({ user: 'ann', app: 'Prod' })
    const swapped = await insert({ ann: 'user', prod: 'app' })
    const odd = await insert({ 'k"y': '%_\\', '': '' })
    const matching = async (metadata: Record<string, string>) =>
      (await found(stores, { teamID, states: allStates, metadata })).sort()
    assert.deepEqual(await matching({ user: 'ann' }), [both, annOnly].sort())
    assert.deepEqual(await matching({ user: 'ann', app: 'prod' }), [both])
    assert.deepEqual(await matching({ user: 'ann', app: 'prod', more: 'x' }), [])
    assert.deepEqual(await matching({ user: 'an' }), [])
    assert.deepEqual(await matching({ 'k"y': '%_\\' }), [odd])
    assert.deepEqual(await matching({ '': '' }), [odd])
    assert.deepEqual(await matching({}), [both, annOnly, swapped, odd].sort())
  })

  storeTest('metadata may be long and plentiful, in the row and in the filter', async (stores) => {
    const { teamID } = await insertTeam(stores)
    const pairs = Array.from({ length: 20_000 }, (_, index) => [`key-${index}`, String(index)])
    const metadata = { ...Object.fromEntries(pairs), long: 'x'.repeat(100_000) }
    const { sandboxID } = await insertSandbox(stores, teamID, { metadata })
    const all = { teamID, states: allStates }
    const some = Object.fromEntries(pairs.slice(0, 2000))
    assert.deepEqual(await found(stores, { ...all, metadata: { ...some, long: metadata.long } }), [sandboxID])
    assert.deepEqual(await found(stores, { ...all, metadata: { ...some, long: 'x' } }), [])
    assert.deepEqual((await stores.sandboxes.find(sandboxID))?.metadata, metadata)
  })
}
