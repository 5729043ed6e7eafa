import assert from 'node:assert/strict'
import type { AccessToken } from '../../core/team/team.ts'
import { newUUID } from '../../lib/ids.ts'
import { aKey, aTemplate, insertSandboxIn, insertTeam, time } from './rows.ts'
import type { StoreTest } from './store-test.ts'

function aToken(teamID: string, keyID: string): AccessToken & { hash: string } {
  const masks = { maskPrefix: 'ab', maskSuffix: 'cdef' }
  const dates = { createdAt: time, revokedAt: null }
  return { tokenID: newUUID(), teamID, name: 'laptop', hash: newUUID(), keyID, ...masks, ...dates }
}

export function teamAccessSuite(storeTest: StoreTest): void {
  storeTest('an access token is found with its team, and revoked together with its key', async (stores) => {
    const team = await insertTeam(stores)
    const other = await insertTeam(stores)
    const key = aKey(team.teamID)
    const { hash, ...token } = aToken(team.teamID, key.keyID)
    await stores.accessTokens.insert({ ...token, hash }, key)
    const { hash: _, ...ownKey } = key
    const found = { token, key: ownKey, hash, team, person: null, memberRole: null }
    assert.deepEqual(await stores.accessTokens.findByHash(hash), found)
    assert.ok(await stores.keys.findByHash(key.hash))
    assert.equal(await stores.accessTokens.revoke(other.teamID, token.tokenID, time + 1), false)
    assert.equal(await stores.accessTokens.revoke(team.teamID, token.tokenID, time + 1), true)
    assert.equal(await stores.accessTokens.revoke(team.teamID, token.tokenID, time + 2), false)
    assert.equal(await stores.accessTokens.findByHash(hash), undefined)
    assert.equal(await stores.keys.findByHash(key.hash), undefined)
  })

  storeTest('a live key is renamed by its own team only', async (stores) => {
    const team = await insertTeam(stores)
    const other = await insertTeam(stores)
    const key = aKey(team.teamID)
    await stores.keys.insertKey(key)
    assert.equal(await stores.keys.renameKey(other.teamID, key.keyID, 'theirs'), false)
    assert.equal(await stores.keys.renameKey(team.teamID, key.keyID, 'mine'), true)
    assert.equal((await stores.keys.listKeys(team.teamID))[0]?.name, 'mine')
    await stores.keys.revokeKey(team.teamID, key.keyID, time)
    assert.equal(await stores.keys.renameKey(team.teamID, key.keyID, 'gone'), false)
  })

  storeTest('the usage of teams is counted, stored in order and removed when it is old', async (stores) => {
    const team = await insertTeam(stores)
    await insertSandboxIn(stores, team.teamID, 'running', { startedAt: time })
    await insertSandboxIn(stores, team.teamID, 'running', { startedAt: time + 10 })
    await insertSandboxIn(stores, team.teamID, 'paused')
    await insertSandboxIn(stores, team.teamID, 'ended')
    const { teamID } = team
    const counted = { teamID, concurrentSandboxes: 2, startedSandboxes: 1 }
    assert.deepEqual(await stores.teamMetrics.count(time + 5), [counted])
    const { concurrentSandboxes, startedSandboxes } = counted
    const present = { concurrentSandboxes, startedSandboxes }
    assert.deepEqual(await stores.teamMetrics.countNow(teamID, time + 5), present)
    const samples = [0, 30, 60].map((later) => ({ ...counted, at: time + later }))
    await stores.teamMetrics.append([])
    await stores.teamMetrics.append(samples.toReversed())
    await stores.teamMetrics.append(samples)
    assert.deepEqual(await stores.teamMetrics.range(teamID, time, time + 60), samples)
    assert.deepEqual(await stores.teamMetrics.range(teamID, time + 1, time + 30), [samples[1]])
    await stores.teamMetrics.prune(time + 60)
    assert.deepEqual(await stores.teamMetrics.range(teamID, 0, time + 60), [samples[2]])
  })

  storeTest(
    'a team is deleted with everything it owns, but not while it has live sandboxes',
    async (stores) => {
      const team = await insertTeam(stores)
      const other = await insertTeam(stores)
      const { teamID } = team
      const key = aKey(teamID)
      await stores.accessTokens.insert(aToken(teamID, key.keyID), key)
      await insertSandboxIn(stores, teamID, 'ended')
      const template = aTemplate({ teamID })
      await stores.templates.insertTemplate(template, [])
      const paused = await insertSandboxIn(stores, teamID, 'paused')
      assert.deepEqual(await stores.teams.deleteUnused(teamID), { sandboxes: 1, templates: 1, volumes: 0 })
      const { sandboxID, runID } = paused
      await stores.sandboxes.transition({ sandboxID, runID, from: ['paused'] }, 'killing')
      const ending = { endedAt: time, endReason: 'killed' } as const
      await stores.sandboxes.transition({ sandboxID, runID, from: ['killing'] }, 'ended', ending)
      await stores.templates.deleteUnused(template.templateID)
      assert.deepEqual(await stores.teams.deleteUnused(teamID), { deleted: true })
      assert.equal(await stores.teams.deleteUnused(teamID), undefined)
      assert.equal(await stores.keys.findByHash(key.hash), undefined)
      assert.equal(await stores.sandboxes.find(sandboxID), undefined)
      assert.deepEqual(await stores.teams.listTeams(), [other])
    },
  )
}
