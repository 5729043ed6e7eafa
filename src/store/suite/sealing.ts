/** The parts of a sandbox's network that may hold credentials are sealed in its row, on both engines. */
import assert from 'node:assert/strict'
import type { Kysely } from 'kysely'
import type { NetworkOptions } from '../../core/network-policy/network-options.ts'
import { SecretVault } from '../../core/secret/vault.ts'
import type { Tables } from '../database/tables.ts'
import { storesOver } from '../open-stores.ts'
import { aSandbox, insertSandboxIn, insertTeam, vault } from './rows.ts'

export const hidden = 'not-to-be-seen'
const ingress = { allowPublicTraffic: false, httpsPorts: [8443] }
export const networkWithSecrets: NetworkOptions = {
  ...ingress,
  allowOut: ['a.test'],
  denyOut: ['0.0.0.0/0'],
  egressProxy: { address: '198.51.100.1:1080', username: 'u', password: `${hidden} 1`, tls: null },
  rules: { 'a.test': [{ transform: { headers: { 'X-Key': `${hidden} 2` } } }] },
}

export async function liesSealed(db: Kysely<Tables>, sandboxID: string): Promise<void> {
  const row = await db
    .selectFrom('sandboxes')
    .selectAll()
    .where('id', '=', sandboxID)
    .executeTakeFirstOrThrow()
  const text = JSON.stringify(row)
  assert.ok(!text.includes(hidden), text)
  // An attacker who can write to the row cannot have the password sent to another host.
  assert.ok(!text.includes('198.51.100.1') && !text.includes('X-Key'), text)
  assert.equal(row.network_key_id, vault.keyID)
  assert.ok(text.includes('8443'), 'how it is reached is known without the key')
}

/** For an empty database with the tables of this build. */
export async function networksAreSealed(db: Kysely<Tables>): Promise<void> {
  const stores = storesOver(db, vault)
  const { sandboxes } = stores
  const team = await insertTeam(stores)
  const plain = aSandbox(team.teamID).options
  const options = { ...plain, allowInternetAccess: true, network: networkWithSecrets }
  const one = await insertSandboxIn(stores, team.teamID, 'paused', { options })
  await liesSealed(db, one.sandboxID)
  assert.deepEqual(one.options, options)
  const resumed = await sandboxes.resumeWithinLimits(one, team.limits, {})
  assert.deepEqual('resumed' in resumed && resumed.resumed?.options, options)

  const other = await insertSandboxIn(stores, team.teamID, 'running')
  assert.deepEqual((await sandboxes.setOptions(other, options))?.options, options)
  await liesSealed(db, other.sandboxID)
  assert.deepEqual(await sandboxes.listLocked(), [])

  // Without the key everything but the egress policy can be read, and a new network cures it.
  const closed = { ...plain, allowInternetAccess: false, network: ingress }
  const newKey = storesOver(db, new SecretVault('5b'.repeat(32))).sandboxes
  assert.deepEqual((await newKey.find(one.sandboxID))?.options, closed)
  const both = [one.sandboxID, other.sandboxID].sort()
  const locked = await newKey.listLocked()
  assert.deepEqual(
    locked.map(({ sandboxID }) => sandboxID),
    both,
  )
  for (const { sandboxID, why } of locked) {
    assert.match(why, new RegExp(`^The network of the sandbox ${sandboxID} was sealed with the key`))
  }
  await newKey.setOptions((await newKey.find(other.sandboxID))!, options)
  assert.deepEqual((await newKey.find(other.sandboxID))?.options, options)
  await sandboxes.setOptions((await sandboxes.find(other.sandboxID))!, plain)
  assert.deepEqual((await newKey.find(other.sandboxID))?.options, plain)

  // A text that was sealed for one sandbox opens in no other, nor for another team.
  const { network_key_id, network_sealed } = await db
    .selectFrom('sandboxes')
    .selectAll()
    .where('id', '=', one.sandboxID)
    .executeTakeFirstOrThrow()
  const put = (id: string, columns: object) =>
    db.updateTable('sandboxes').set(columns).where('id', '=', id).execute()
  await put(other.sandboxID, { network_key_id, network_sealed })
  const thief = await insertTeam(stores)
  await put(one.sandboxID, { team_id: thief.teamID })
  for (const id of both) {
    const found = await sandboxes.find(id)
    assert.equal(found?.options.allowInternetAccess, false)
    assert.equal(found?.options.network?.egressProxy, undefined)
  }
  const changed = (await sandboxes.listLocked()).filter(({ why }) =>
    /was changed in the database by something other than Warren/.test(why),
  )
  assert.equal(changed.length, 2)

  await put(one.sandboxID, { team_id: team.teamID, state: 'ended' })
  await put(other.sandboxID, { network_key_id: null, network_sealed: null })
  assert.deepEqual(await newKey.listLocked(), [], 'what has ended is of no interest')
}
