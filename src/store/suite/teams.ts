import assert from 'node:assert/strict'
import { isAppError } from '../../lib/app-error.ts'
import { aKey, aTeam, insertTeam, time } from './rows.ts'
import type { StoreTest } from './store-test.ts'

export function teamSuite(storeTest: StoreTest): void {
  storeTest('a team is found by its id and by its slug, and is read back unchanged', async ({ teams }) => {
    const team = aTeam({ slug: 'rabbits', name: 'Die Häschen 🐇' })
    await teams.insertTeam(team)
    assert.deepEqual(await teams.findTeam(team.teamID), team)
    assert.deepEqual(await teams.findTeam('rabbits'), team)
    assert.equal(await teams.findTeam('hares'), undefined)
  })

  storeTest('an id wins over a slug that looks the same', async (stores) => {
    const first = await insertTeam(stores)
    await insertTeam(stores, { slug: first.teamID })
    assert.deepEqual(await stores.teams.findTeam(first.teamID), first)
  })

  storeTest('a taken slug is rejected with already_exists and the slug', async (stores) => {
    await insertTeam(stores, { slug: 'rabbits' })
    await assert.rejects(insertTeam(stores, { slug: 'rabbits' }), (error) => {
      assert.ok(isAppError(error, 'already_exists'))
      return error.message.includes("'rabbits'")
    })
    assert.equal((await stores.teams.listTeams()).length, 1)
  })

  storeTest('teams are listed oldest first', async (stores) => {
    const younger = await insertTeam(stores, { createdAt: time + 1 })
    const older = await insertTeam(stores, { createdAt: time })
    assert.deepEqual(await stores.teams.listTeams(), [older, younger])
  })

  storeTest(
    'new limits replace the old ones of that team only, beyond 32 bits and in fractions of an hour',
    async (stores) => {
      const team = await insertTeam(stores)
      const other = await insertTeam(stores)
      const limits = { maxSandboxes: 1, maxCPU: 2, maxMemoryMB: 2 ** 40, maxLifetimeHours: 0.5, maxGPUs: 0 }
      await stores.teams.setLimits(team.teamID, limits)
      assert.deepEqual((await stores.teams.findTeam(team.teamID))?.limits, limits)
      assert.deepEqual(await stores.teams.findTeam(other.teamID), other)
      await assert.rejects(stores.teams.setLimits('nobody', limits), (error) =>
        isAppError(error, 'not_found'),
      )
    },
  )

  storeTest('older clients are allowed to that team only', async (stores) => {
    const team = await insertTeam(stores)
    const other = await insertTeam(stores)
    await stores.teams.setOlderClients(team.teamID, true)
    assert.deepEqual(await stores.teams.findTeam(team.teamID), { ...team, olderClients: true })
    assert.deepEqual(await stores.teams.findTeam(other.teamID), other)
    await stores.teams.setOlderClients(team.teamID, false)
    assert.deepEqual(await stores.teams.findTeam(team.teamID), team)
    await assert.rejects(stores.teams.setOlderClients('nobody', true), (error) =>
      isAppError(error, 'not_found'),
    )
  })

  storeTest('a key is found by its hash, with its team', async (stores) => {
    const team = await insertTeam(stores)
    const { hash, ...key } = aKey(team.teamID, { name: 'ci' })
    await stores.keys.insertKey({ ...key, hash })
    const nobody = { person: null, memberRole: null }
    assert.deepEqual(await stores.keys.findByHash('first', hash), { key, hash, team, ...nobody })
    assert.equal(await stores.keys.findByHash('another hash'), undefined)
  })

  storeTest('a key of an unknown team is rejected with not_found', async ({ keys }) => {
    await assert.rejects(keys.insertKey(aKey('nobody')), (error) => isAppError(error, 'not_found'))
  })

  storeTest('the same hash twice is rejected with already_exists', async (stores) => {
    const team = await insertTeam(stores)
    const key = aKey(team.teamID)
    await stores.keys.insertKey(key)
    const twin = aKey(team.teamID, { hash: key.hash })
    await assert.rejects(stores.keys.insertKey(twin), (error) => isAppError(error, 'already_exists'))
  })

  storeTest('a revoked key is not found by its hash, but stays in the list', async (stores) => {
    const team = await insertTeam(stores)
    const { hash, ...key } = aKey(team.teamID)
    await stores.keys.insertKey({ ...key, hash })
    assert.equal(await stores.keys.revokeKey(team.teamID, key.keyID, time + 5), true)
    assert.equal(await stores.keys.findByHash(hash), undefined)
    assert.deepEqual(await stores.keys.listKeys(team.teamID), [{ ...key, revokedAt: time + 5 }])
    assert.equal(await stores.keys.revokeKey(team.teamID, key.keyID, time + 9), false)
  })

  storeTest('a team cannot revoke or list the keys of another', async (stores) => {
    const team = await insertTeam(stores)
    const other = await insertTeam(stores)
    const key = aKey(team.teamID)
    await stores.keys.insertKey(key)
    assert.equal(await stores.keys.revokeKey(other.teamID, key.keyID, time), false)
    assert.deepEqual(await stores.keys.listKeys(other.teamID), [])
    assert.ok(await stores.keys.findByHash(key.hash))
  })

  storeTest("the time of a key's last use never goes back", async (stores) => {
    const team = await insertTeam(stores)
    const key = aKey(team.teamID)
    await stores.keys.insertKey(key)
    await stores.keys.touchKey(key.keyID, time + 20, '192.0.2.1')
    await stores.keys.touchKey(key.keyID, time + 10, '192.0.2.2')
    const found = (await stores.keys.findByHash(key.hash))?.key
    assert.deepEqual([found?.lastUsedAt, found?.lastUsedFrom], [time + 20, '192.0.2.1'])
  })
}
