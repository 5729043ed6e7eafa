import assert from 'node:assert/strict'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { describe, it } from 'node:test'
import { turning } from '../../../test/support/domain.ts'
import { connectionLost } from '../../../test/support/store-faults.ts'
import { isAppError } from '../../lib/app-error.ts'
import { ManualClock } from '../../lib/clock.ts'
import { openDatabase, storesOver } from '../../store/open-stores.ts'
import { aTeam, vault } from '../../store/suite/rows.ts'
import { secretLimits } from './secret.ts'
import { SecretService } from './service.ts'
import { SecretVault } from './vault.ts'

const oneKey = '0a'.repeat(32)
const otherKey = '0b'.repeat(32)

async function open() {
  const folder = mkdtempSync(join(tmpdir(), 'warren-secrets-'))
  const db = await openDatabase({ url: undefined, dataFolder: folder, vault })
  const stores = storesOver(db, vault)
  const clock = new ManualClock()
  const [team, other] = [aTeam(), aTeam()]
  for (const each of [team, other]) await stores.teams.insertTeam(each)
  const withKey = (key: string) =>
    new SecretService({ secrets: stores.secrets, vault: new SecretVault(key), clock })
  return {
    db,
    stores,
    clock,
    team,
    other,
    withKey,
    service: withKey(oneKey),
    async [Symbol.asyncDispose]() {
      await stores.close()
      rmSync(folder, { recursive: true, force: true })
    },
  }
}

describe('secrets', () => {
  it('are read by name in any case, in the newest version, by their own team only', async () => {
    await using at = await open()
    const { service, team, other, clock } = at
    const made = await service.create(team, { name: 'API-Key', value: 'first', metadata: { a: '1' } })
    assert.equal(made.name, 'api-key')
    assert.equal(await service.readSecret(team.teamID, 'Api-KEY'), 'first')
    clock.advance(1000)
    const renewed = await service.update(team, made.secretID.toUpperCase(), { value: 'second' })
    const updatedAt = made.updatedAt + 1000
    assert.deepEqual(renewed, { ...made, currentVersion: 2, updatedAt })
    assert.equal(await service.readSecret(team.teamID, 'api-key'), 'second')
    for (const name of ['nothing', '', 'not a name', made.secretID]) {
      assert.equal(await service.readSecret(team.teamID, name), null)
    }
    assert.equal(await service.readSecret(other.teamID, 'api-key'), null)
    await service.delete(team, 'API-key')
    assert.equal(await service.readSecret(team.teamID, 'api-key'), null)
  })

  it('are limited per team, and the rejection has its own code', async () => {
    await using at = await open()
    const { service, team, other, db } = at
    await service.create(team, { name: 'first', value: 'v' })
    const many = Array.from({ length: secretLimits.perTeam - 1 }, (_, count) => ({
      id: `sec_${count}`,
      team_id: team.teamID,
      name: `n${count}`,
      current_version: 1,
      metadata: '{}',
      created_at: 0,
      updated_at: 0,
    }))
    for (let from = 0; from < many.length; from += 100) {
      await db
        .insertInto('secrets')
        .values(many.slice(from, from + 100))
        .execute()
    }
    const oneMore = service.create(team, { name: 'more', value: 'v' })
    await assert.rejects(oneMore, (error) => {
      assert.ok(isAppError(error, 'conflict'))
      return error.slug === 'secret_limit_reached' && error.retry?.should === false
    })
    await service.create(other, { name: 'more', value: 'v' })
    await service.update(team, 'first', { value: 'an update needs no room' })
    await service.delete(team, 'n0')
    await service.create(team, { name: 'more', value: 'v' })
  })

  it('keep their last ten values, and none after a deletion', async () => {
    await using at = await open()
    const { service, team, db } = at
    await service.create(team, { name: 'key', value: 'value 1' })
    for (let version = 2; version <= 14; version++) {
      await service.update(team, 'key', { value: `value ${version}` })
    }
    const stored = async () =>
      (await db.selectFrom('secret_versions').select('version').orderBy('version').execute()).map(
        ({ version }) => version,
      )
    assert.deepEqual(await stored(), [5, 6, 7, 8, 9, 10, 11, 12, 13, 14])
    assert.equal(await service.readSecret(team.teamID, 'key'), 'value 14')
    await service.delete(team, 'key')
    assert.deepEqual(await stored(), [])
  })

  it('fail with the remedy if the key is lost, can be set again, and come back with the old key', async () => {
    await using at = await open()
    const { service, team, withKey } = at
    for (const name of ['one', 'two']) await service.create(team, { name, value: `value of ${name}` })
    assert.equal(await service.countLocked(), 0)
    const lost = withKey(otherKey)
    assert.equal(await lost.countLocked(), 2)
    await assert.rejects(lost.readSecret(team.teamID, 'one'), /restore the secret-key\.json/)
    assert.equal((await lost.get(team, 'one')).currentVersion, 1)
    await lost.update(team, 'one', { value: 'anew' })
    assert.equal(await lost.readSecret(team.teamID, 'one'), 'anew')
    assert.equal(await lost.countLocked(), 1)
    assert.equal(await service.readSecret(team.teamID, 'two'), 'value of two')
  })

  it('do not open when rows are swapped in the database', async () => {
    await using at = await open()
    const { service, team, other, db } = at
    const mine = await service.create(team, { name: 'mine', value: 'my value' })
    const theirs = await service.create(other, { name: 'theirs', value: 'their value' })
    const sealedOf = async (secretID: string) =>
      (await db.selectFrom('secret_versions').selectAll().where('secret_id', '=', secretID).execute())[0]!
    const { sealed } = await sealedOf(theirs.secretID)
    await db.updateTable('secret_versions').set({ sealed }).where('secret_id', '=', mine.secretID).execute()
    await assert.rejects(
      service.readSecret(team.teamID, 'mine'),
      /was changed in the database by something other than Warren/,
    )
    // Handing the whole secret to another team is no way either.
    await db.updateTable('secrets').set({ team_id: team.teamID }).where('id', '=', theirs.secretID).execute()
    await assert.rejects(
      service.readSecret(team.teamID, 'theirs'),
      /was changed in the database by something other than Warren/,
    )
  })

  it('are created and deleted once, although the answer is lost', async () => {
    await using at = await open()
    const { service, team, clock, stores } = at
    const { secrets } = stores
    const [insert, remove] = [secrets.insert.bind(secrets), secrets.delete.bind(secrets)]
    secrets.insert = async (...args) => {
      secrets.insert = insert
      await insert(...args)
      throw connectionLost()
    }
    const made = await turning(clock, service.create(team, { name: 'key', value: 'v' }))
    assert.deepEqual(await service.list(team, { limit: 10 }), [made])
    secrets.delete = async (...args) => {
      secrets.delete = remove
      await remove(...args)
      throw connectionLost()
    }
    await turning(clock, service.delete(team, 'key'))
    assert.deepEqual(await service.list(team, { limit: 10 }), [])
    await assert.rejects(service.delete(team, 'key'), (error) => isAppError(error, 'not_found'))
  })
})
