import assert from 'node:assert/strict'
import type { CachedStep } from '../../core/template/build-cache-store.ts'
import { isAppError } from '../../lib/app-error.ts'
import { newUUID } from '../../lib/ids.ts'
import { insertTeam, time } from './rows.ts'
import type { StoreTest } from './store-test.ts'

function aStep(changes: Partial<CachedStep> = {}): CachedStep {
  return {
    key: newUUID(),
    snapshotName: newUUID(),
    layers: null,
    rootFolder: null,
    envVars: { PATH: '/bin' },
    user: 'user',
    workdir: '/home/user',
    ...changes,
  }
}

export function buildCacheSuite(storeTest: StoreTest): void {
  storeTest('a cached step is read back unchanged, by its own team only', async (stores) => {
    const { buildCache } = stores
    const { teamID } = await insertTeam(stores)
    const other = await insertTeam(stores)
    const steps = [
      aStep({ layers: ['sha256:b', 'sha256:a'], envVars: { A: '"1"' }, user: 'root', workdir: '/' }),
      aStep({ snapshotName: null, rootFolder: 'roots/base', envVars: {} }),
    ]
    for (const step of steps) await buildCache.put(teamID, step, time)
    for (const step of steps) {
      assert.deepEqual(await buildCache.find(teamID, step.key, time), step)
      assert.equal(await buildCache.find(other.teamID, step.key, time), undefined)
    }
    assert.equal(await buildCache.find(teamID, 'nothing', time), undefined)
  })

  storeTest(
    'a step with an existing key replaces the earlier step as a whole, for that team',
    async (stores) => {
      const { buildCache } = stores
      const { teamID } = await insertTeam(stores)
      const other = await insertTeam(stores)
      const step = aStep({ layers: ['sha256:a'], rootFolder: 'roots/base' })
      const replacement = aStep({ key: step.key, envVars: { B: '2' }, user: 'root', workdir: '/srv' })
      await buildCache.put(teamID, step, time)
      await buildCache.put(other.teamID, step, time)
      await buildCache.put(teamID, replacement, time + 5)
      assert.deepEqual(
        (await buildCache.listSnapshotNames()).sort(),
        [replacement.snapshotName, step.snapshotName].sort(),
      )
      assert.deepEqual(await buildCache.find(teamID, step.key, time), replacement)
      assert.deepEqual(await buildCache.find(other.teamID, step.key, time), step)
    },
  )

  storeTest('steps of an unknown team are rejected', async ({ buildCache }) => {
    await assert.rejects(buildCache.put(newUUID(), aStep(), time), (error) => isAppError(error, 'not_found'))
  })

  storeTest('builds that finish the same step at once all succeed', async (stores) => {
    const { teamID } = await insertTeam(stores)
    const steps = Array.from({ length: 8 }, () => aStep({ key: 'same' }))
    await Promise.all(steps.map((step) => stores.buildCache.put(teamID, step, time)))
    const found = await stores.buildCache.find(teamID, 'same', time)
    assert.equal(steps.filter(({ snapshotName }) => snapshotName === found?.snapshotName).length, 1)
  })

  storeTest('steps are listed by last use, and removed unless they were used since', async (stores) => {
    const { buildCache } = stores
    const { teamID } = await insertTeam(stores)
    const other = await insertTeam(stores)
    const [used, unused, young] = [aStep(), aStep({ layers: ['b', 'a'] }), aStep({ snapshotName: null })]
    await buildCache.put(teamID, young, time + 10)
    await buildCache.put(teamID, used, time + 1)
    await buildCache.put(teamID, unused, time)
    await buildCache.put(other.teamID, unused, time + 5)
    const listed = await buildCache.list()
    const useOf = ({ key, snapshotName, layers }: CachedStep, of: string, usedAt: number) => ({
      teamID: of,
      key,
      snapshotName,
      layers,
      usedAt,
    })
    assert.deepEqual(listed, [
      useOf(unused, teamID, time),
      useOf(used, teamID, time + 1),
      useOf(unused, other.teamID, time + 5),
      useOf(young, teamID, time + 10),
    ])
    await buildCache.find(teamID, used.key, time + 11)
    assert.deepEqual(await buildCache.remove(listed.slice(0, 2)), [listed[0]])
    assert.deepEqual(await buildCache.remove(listed.slice(0, 1)), [])
    assert.equal(await buildCache.find(teamID, unused.key, time), undefined)
    assert.deepEqual(await buildCache.find(other.teamID, unused.key, time), unused)
    assert.equal((await buildCache.list()).length, 3)
  })

  storeTest('snapshots of cached steps are listed once each, over all teams', async (stores) => {
    const { buildCache } = stores
    assert.deepEqual(await buildCache.listSnapshotNames(), [])
    const { teamID } = await insertTeam(stores)
    const other = await insertTeam(stores)
    await buildCache.put(teamID, aStep({ snapshotName: 'one' }), time)
    await buildCache.put(teamID, aStep({ snapshotName: 'one' }), time)
    await buildCache.put(teamID, aStep({ snapshotName: null }), time)
    await buildCache.put(other.teamID, aStep({ snapshotName: 'two' }), time)
    assert.deepEqual((await buildCache.listSnapshotNames()).sort(), ['one', 'two'])
  })
}
