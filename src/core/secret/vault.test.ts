import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { isAppError } from '../../lib/app-error.ts'
import { ownerOf } from './secret.ts'
import { SecretVault } from './vault.ts'

const vault = new SecretVault('0b'.repeat(32))
const secret = { teamID: 'team', secretID: 'sec_one', currentVersion: 3 }
const owner = ownerOf(secret)
const value = 'hunter2, not to be seen'

const refuses = (work: () => unknown, says: RegExp) =>
  assert.throws(work, (error) => {
    assert.ok(isAppError(error, 'internal'))
    assert.match(error.message, says)
    assert.ok(!error.message.includes(value))
    return true
  })

describe('the vault', () => {
  it('returns the sealed value, also after a restart, and never seals a value twice alike', () => {
    for (const text of [value, 'ключ \u{1F511}', 'x'.repeat(16_384)]) {
      const sealed = vault.seal(owner, text)
      assert.equal(new SecretVault('0b'.repeat(32)).open(owner, sealed), text)
    }
    assert.notEqual(vault.seal(owner, value).sealed, vault.seal(owner, value).sealed)
  })

  it('opens values that earlier versions of Warren sealed', () => {
    const sealed = '1u70p6UsZQ8yl5i7nG6BXnSgnEp0Q81GHgMAQCL0yUqG6Wm/zPjmE63wY7ctt2Fv7J8v'
    assert.equal(vault.open(owner, { keyID: 'adc5e45f6188f626', sealed }), value)
  })

  it('reveals nothing of the value', () => {
    const { sealed } = vault.seal(owner, value)
    assert.ok(!Buffer.from(sealed, 'base64').includes('hunter2'))
    assert.ok(!sealed.includes(Buffer.from(value).toString('base64').slice(0, 12)))
  })

  it('opens a value in no other row: not of another team, secret or version', () => {
    const sealed = vault.seal(owner, value)
    for (const elsewhere of [
      { ...secret, teamID: 'other' },
      { ...secret, secretID: 'sec_two' },
      { ...secret, currentVersion: 2 },
      // The parts cannot be shifted into each other either.
      { ...secret, teamID: 'teamsec_', secretID: 'one' },
    ]) {
      refuses(
        () => vault.open(ownerOf(elsewhere), sealed),
        /was changed in the database by something other than Warren/,
      )
    }
  })

  it('opens nothing that was changed or cut, at any byte', () => {
    const { keyID, sealed } = vault.seal(owner, 'short')
    const bytes = Buffer.from(sealed, 'base64')
    for (let at = 0; at < bytes.length; at++) {
      const changed = Buffer.from(bytes)
      changed[at]! ^= 1
      refuses(
        () => vault.open(owner, { keyID, sealed: changed.toString('base64') }),
        /was changed in the database/,
      )
      const cut = bytes.subarray(0, at).toString('base64')
      refuses(() => vault.open(owner, { keyID, sealed: cut }), /was changed in the database/)
    }
  })

  it('names both keys if it has the wrong one, with the remedy', () => {
    const other = new SecretVault('0c'.repeat(32))
    assert.notEqual(other.keyID, vault.keyID)
    const both = new RegExp(`${vault.keyID}.*${other.keyID}.*restore the secret-key.json`)
    refuses(() => other.open(owner, vault.seal(owner, value)), both)
    // A row that lies about its key is no way around.
    const lie = { ...vault.seal(owner, value), keyID: other.keyID }
    refuses(() => other.open(owner, lie), /was changed in the database/)
  })

  it('rejects keys of another size', () => {
    for (const key of ['', '0b', '0b'.repeat(31), 'zz'.repeat(32)]) {
      refuses(() => new SecretVault(key), /64 hexadecimal digits/)
    }
  })
})
