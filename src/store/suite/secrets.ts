import assert from 'node:assert/strict'
import type { Secret } from '../../core/secret/secret.ts'
import type { SecretChange } from '../../core/secret/secret-store.ts'
import type { SealedValue } from '../../core/secret/vault.ts'
import { isAppError } from '../../lib/app-error.ts'
import { newSecretID, newUUID } from '../../lib/ids.ts'
import { insertTeam, time } from './rows.ts'
import type { StoreTest } from './store-test.ts'

const max = 100
const value: SealedValue = { keyID: 'key', sealed: 'first' }

function aSecret(teamID: string, changes: Partial<Secret> = {}): Secret {
  const name = `name-${newUUID()}`
  const times = { createdAt: time, updatedAt: time }
  return { secretID: newSecretID(), teamID, name, currentVersion: 1, metadata: {}, ...times, ...changes }
}

const change = (changes: Partial<SecretChange> = {}): SecretChange => ({
  at: time + 5,
  maxVersions: 3,
  seal: ({ currentVersion }) => ({ keyID: 'key', sealed: `value ${currentVersion}` }),
  ...changes,
})

export function secretSuite(storeTest: StoreTest): void {
  storeTest('a secret is read back unchanged by id and by name, by its own team only', async (stores) => {
    const { secrets } = stores
    const { teamID } = await insertTeam(stores)
    const other = await insertTeam(stores)
    const secret = aSecret(teamID, { metadata: { 'k"1': 'é\n', constructor: 'x' } })
    const { secretID, name } = secret
    assert.equal(await secrets.insert(secret, value, max), true)
    for (const reference of [{ secretID }, { name }]) {
      assert.deepEqual(await secrets.find(teamID, reference), secret)
      assert.equal(await secrets.find(other.teamID, reference), undefined)
      assert.equal(await secrets.append(other.teamID, reference, change()), undefined)
      assert.equal(await secrets.delete(other.teamID, reference), false)
    }
    assert.deepEqual(await secrets.readCurrent(teamID, name), { secret, value })
    assert.equal(await secrets.readCurrent(other.teamID, name), undefined)
    assert.equal(await secrets.find(teamID, { name: 'nothing' }), undefined)
  })

  storeTest('a name is taken once per team', async (stores) => {
    const { secrets } = stores
    const { teamID } = await insertTeam(stores)
    const other = await insertTeam(stores)
    const secret = aSecret(teamID)
    await secrets.insert(secret, value, max)
    const twin = aSecret(teamID, { name: secret.name })
    await assert.rejects(secrets.insert(twin, value, max), (error) => isAppError(error, 'already_exists'))
    assert.equal(await secrets.insert(aSecret(other.teamID, { name: secret.name }), value, max), true)
    assert.deepEqual(await secrets.list(teamID, { limit: 10 }), [secret])
  })

  storeTest('of parallel inserts of one name, exactly one succeeds', async (stores) => {
    const { teamID } = await insertTeam(stores)
    const all = Array.from({ length: 12 }, () => aSecret(teamID, { name: 'same' }))
    const results = await Promise.allSettled(all.map((each) => stores.secrets.insert(each, value, max)))
    assert.equal(results.filter(({ status }) => status === 'fulfilled').length, 1)
    for (const result of results) {
      if (result.status === 'rejected') assert.ok(isAppError(result.reason, 'already_exists'))
    }
    assert.equal((await stores.secrets.list(teamID, { limit: 100 })).length, 1)
  })

  storeTest('parallel inserts do not exceed the limit of the team together', async (stores) => {
    const { teamID } = await insertTeam(stores)
    const other = await insertTeam(stores)
    await stores.secrets.insert(aSecret(other.teamID), value, max)
    const inserts = Array.from({ length: 20 }, () => stores.secrets.insert(aSecret(teamID), value, 7))
    assert.equal((await Promise.all(inserts)).filter((inserted) => inserted).length, 7)
    assert.equal((await stores.secrets.list(teamID, { limit: 100 })).length, 7)
  })

  storeTest('a secret of an unknown team is rejected', async ({ secrets }) => {
    const orphan = secrets.insert(aSecret(newUUID()), value, max)
    await assert.rejects(orphan, (error) => isAppError(error, 'not_found'))
  })

  storeTest('a new version is current at once, and metadata stays unless it is given', async (stores) => {
    const { secrets } = stores
    const { teamID } = await insertTeam(stores)
    const secret = aSecret(teamID, { metadata: { a: '1' } })
    await secrets.insert(secret, value, max)
    const second = { ...secret, currentVersion: 2, updatedAt: time + 5 }
    assert.deepEqual(await secrets.append(teamID, { name: secret.name }, change()), second)
    const read = await secrets.readCurrent(teamID, secret.name)
    assert.deepEqual(read, { secret: second, value: { keyID: 'key', sealed: 'value 2' } })
    const third = { ...second, currentVersion: 3, metadata: {}, updatedAt: time + 9 }
    const emptied = change({ metadata: {}, at: time + 9 })
    assert.deepEqual(await secrets.append(teamID, { secretID: secret.secretID }, emptied), third)
    assert.deepEqual(await secrets.find(teamID, { name: secret.name }), third)
  })

  storeTest('parallel appends each get a number of their own, sealed for it', async (stores) => {
    const { secrets } = stores
    const { teamID } = await insertTeam(stores)
    const { secretID, name } = aSecret(teamID)
    await secrets.insert(aSecret(teamID, { secretID, name }), value, max)
    const appends = Array.from({ length: 10 }, () => secrets.append(teamID, { secretID }, change()))
    const versions = (await Promise.all(appends)).map((secret) => secret!.currentVersion)
    assert.deepEqual(
      versions.sort((a, b) => a - b),
      Array.from({ length: 10 }, (_, at) => at + 2),
    )
    assert.equal((await secrets.readCurrent(teamID, name))?.value.sealed, 'value 11')
  })

  storeTest('a value that cannot be sealed leaves the secret unchanged', async (stores) => {
    const { secrets } = stores
    const { teamID } = await insertTeam(stores)
    const secret = aSecret(teamID)
    await secrets.insert(secret, value, max)
    const seal = () => {
      throw new Error('no key')
    }
    await assert.rejects(secrets.append(teamID, { name: secret.name }, change({ seal })), /no key/)
    assert.deepEqual(await secrets.readCurrent(teamID, secret.name), { secret, value })
  })

  storeTest('pages are newest first, then by id, without gap or overlap', async (stores) => {
    const { secrets } = stores
    const { teamID } = await insertTeam(stores)
    const all: Secret[] = []
    for (const createdAt of [time, time, time, time + 1, time + 2]) {
      const secret = aSecret(teamID, { createdAt })
      all.push(secret)
      await secrets.insert(secret, value, max)
    }
    const expected = all.toSorted((a, b) => b.createdAt - a.createdAt || (a.secretID < b.secretID ? -1 : 1))
    const found: Secret[] = []
    for (;;) {
      const last = found.at(-1)
      const page = await secrets.list(teamID, { limit: 2, ...(last && { after: last }) })
      found.push(...page)
      if (page.length < 2) break
    }
    assert.deepEqual(found, expected)
  })

  storeTest('a deleted secret is removed with its versions, and its name is free', async (stores) => {
    const { secrets } = stores
    const { teamID } = await insertTeam(stores)
    const secret = aSecret(teamID)
    await secrets.insert(secret, { ...value, keyID: 'old' }, max)
    assert.equal(await secrets.delete(teamID, { secretID: secret.secretID }), true)
    assert.equal(await secrets.delete(teamID, { secretID: secret.secretID }), false)
    assert.equal(await secrets.readCurrent(teamID, secret.name), undefined)
    const again = aSecret(teamID, { name: secret.name })
    assert.equal(await secrets.insert(again, value, max), true)
    assert.deepEqual(await secrets.readCurrent(teamID, secret.name), { secret: again, value })
  })

  storeTest(
    'secrets whose current value was sealed with another key are counted, over all teams',
    async (stores) => {
      const { secrets } = stores
      const { teamID } = await insertTeam(stores)
      const other = await insertTeam(stores)
      const renewed = aSecret(teamID)
      await secrets.insert(renewed, { keyID: 'old', sealed: 's' }, max)
      await secrets.insert(aSecret(other.teamID), { keyID: 'old', sealed: 's' }, max)
      await secrets.insert(aSecret(other.teamID), value, max)
      assert.equal(await secrets.countSealedByOthers('key'), 2)
      await secrets.append(teamID, { name: renewed.name }, change())
      assert.equal(await secrets.countSealedByOthers('key'), 1)
      assert.equal(await secrets.countSealedByOthers('old'), 2)
    },
  )
}
