import assert from 'node:assert/strict'
import type { CachedStep } from '../core/stores.ts'
import { isAppError } from '../lib/app-error.ts'
import { newUUID } from '../lib/ids.ts'
import { insertTeam, time } from './suite-rows.ts'
import type { StoreTest } from './suite-test.ts'

function aStep(changes: Partial<CachedStep> = {}): CachedStep {
  return {
    key: newUUID(),
    savedName: newUUID(),
    layers: null,
    rootFolder: null,
    envVars: { PATH: '/bin' },
    user: 'user',
    workdir: '/home/user',
    ...changes,
  }
}

export function buildCacheSuite(storeTest: StoreTest): void {
  storeTest('a cached step comes back as it was, to its own team only', async (stores) => {
    const { buildCache } = stores
    const { teamID } = await insertTeam(stores)
    const other = await insertTeam(stores)
    const steps = [
      aStep({ layers: ['sha256:b', 'sha256:a'], envVars: { A: '"1"' }, user: 'root', workdir: '/' }),
      aStep({ savedName: null, rootFolder: 'roots/base', envVars: {} }),
    ]
    for (const step of steps) await buildCache.put(teamID, step, time)
    for (const step of steps) {
      assert.deepEqual(await buildCache.find(teamID, step.key, time), step)
      assert.equal(await buildCache.find(other.teamID, step.key, time), undefined)
    }
    assert.equal(await buildCache.find(teamID, 'nothing', time), undefined)
  })

  storeTest('a step with a key that is there replaces it whole, for that team', async (stores) => {
    const { buildCache } = stores
    const { teamID } = await insertTeam(stores)
    const other = await insertTeam(stores)
    const step = aStep({ layers: ['sha256:a'], rootFolder: 'roots/base' })
    const replacement = aStep({ key: step.key, envVars: { B: '2' }, user: 'root', workdir: '/srv' })
    await buildCache.put(teamID, step, time)
    await buildCache.put(other.teamID, step, time)
    await buildCache.put(teamID, replacement, time + 5)
    assert.deepEqual(
      (await buildCache.listSavedNames()).sort(),
      [replacement.savedName, step.savedName].sort(),
    )
    await buildCache.prune(time + 5)
    assert.deepEqual(await buildCache.find(teamID, step.key, time), replacement)
    assert.equal(await buildCache.find(other.teamID, step.key, time), undefined)
  })

  storeTest('steps of a team that is not there are refused', async ({ buildCache }) => {
    await assert.rejects(buildCache.put(newUUID(), aStep(), time), (error) => isAppError(error, 'not_found'))
  })

  storeTest('builds that finish the same step at once all succeed', async (stores) => {
    const { teamID } = await insertTeam(stores)
    const steps = Array.from({ length: 8 }, () => aStep({ key: 'same' }))
    await Promise.all(steps.map((step) => stores.buildCache.put(teamID, step, time)))
    const found = await stores.buildCache.find(teamID, 'same', time)
    assert.equal(steps.filter(({ savedName }) => savedName === found?.savedName).length, 1)
  })

  storeTest('a step that was used stays when those unused since are forgotten', async (stores) => {
    const { buildCache } = stores
    const { teamID } = await insertTeam(stores)
    const [used, unused, young] = [aStep(), aStep(), aStep()]
    await buildCache.put(teamID, used, time)
    await buildCache.put(teamID, unused, time)
    await buildCache.put(teamID, young, time + 10)
    await buildCache.find(teamID, used.key, time + 10)
    await buildCache.prune(time + 10)
    assert.deepEqual((await buildCache.listSavedNames()).sort(), [used.savedName, young.savedName].sort())
    assert.equal(await buildCache.find(teamID, unused.key, time + 11), undefined)
  })

  storeTest(
    'saved states and layers of cached steps are listed, of all teams and each once',
    async (stores) => {
      const { buildCache } = stores
      assert.deepEqual(await buildCache.listSavedNames(), [])
      assert.deepEqual(await buildCache.listLayers(), [])
      const { teamID } = await insertTeam(stores)
      const other = await insertTeam(stores)
      await buildCache.put(teamID, aStep({ savedName: 'one', layers: ['a', 'b'] }), time)
      await buildCache.put(teamID, aStep({ savedName: 'one', layers: ['b', 'c'] }), time)
      await buildCache.put(teamID, aStep({ savedName: null, layers: ['c'] }), time)
      await buildCache.put(other.teamID, aStep({ savedName: 'two', layers: null }), time)
      assert.deepEqual((await buildCache.listSavedNames()).sort(), ['one', 'two'])
      assert.deepEqual((await buildCache.listLayers()).sort(), ['a', 'b', 'c'])
    },
  )
}
