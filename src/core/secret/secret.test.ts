import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { isAppError } from '../../lib/app-error.ts'
import { newSecretID } from '../../lib/ids.ts'
import { checkMetadata, checkValue, secretName, secretReference } from './secret.ts'

const refuses = (work: () => unknown, says: RegExp, sent: string) =>
  assert.throws(work, (error) => {
    assert.ok(isAppError(error, 'invalid_argument'))
    assert.match(error.message, /^Invalid secrets request: /)
    assert.match(error.message, says)
    assert.ok(sent.length < 5 || !error.message.includes(sent), 'what was sent does not come back')
    return true
  })

describe('names of secrets', () => {
  it('are in lower case, and contain letters, digits, - and _ only', () => {
    assert.equal(secretName('OpenAI_Key-1'), 'openai_key-1')
    assert.equal(secretName('a'.repeat(128)), 'a'.repeat(128))
    // A Kelvin sign becomes a k when it is lowered.
    for (const bad of ['', 'a'.repeat(129), 'a b', 'a.b', '../a', 'é', '\u212Aey-name', 'name\n', '{name}']) {
      refuses(() => secretName(bad), /a name is 1 to 128/, bad)
    }
  })

  it('cannot look like an id, in any case, but may begin like one', () => {
    for (const bad of ['sec_', 'SEC_abcdef', 'sec_name']) refuses(() => secretName(bad), /sec_/, bad)
    assert.equal(secretName('secret'), 'secret')
    assert.equal(secretName('sec-name'), 'sec-name')
  })
})

describe('references', () => {
  it('are ids when they begin like one, and names otherwise', () => {
    const secretID = newSecretID()
    assert.deepEqual(secretReference(secretID), { secretID })
    assert.deepEqual(secretReference(secretID.toUpperCase()), { secretID })
    assert.deepEqual(secretReference('Key'), { name: 'key' })
    for (const bad of ['sec_', 'sec_name', `${secretID}0`, secretID.replace('sec_', 'sec_8')]) {
      refuses(() => secretReference(bad), /an id is/, bad)
    }
  })
})

describe('ids', () => {
  it('have the form of a TypeID and all differ', () => {
    const made = new Set(Array.from({ length: 1000 }, newSecretID))
    assert.equal(made.size, 1000)
    for (const id of made) assert.match(id, /^sec_[0-7][0-9a-hjkmnp-tv-z]{25}$/)
    const lasts = new Set([...made].map((id) => id.at(-1)))
    assert.equal(lasts.size, 32, 'every digit occurs')
  })
})

describe('values', () => {
  it('are anything that a header can carry, up to 16 KiB', () => {
    for (const good of ['x', ' spaced\tout ', 'ключ', 'x'.repeat(16_384)]) checkValue(good)
    refuses(() => checkValue(''), /empty/, '')
    refuses(() => checkValue('x'.repeat(16_385)), /longer than 16384 bytes/, 'xxxxx')
    refuses(() => checkValue('é'.repeat(8193)), /longer than 16384 bytes/, 'ééééé')
    for (const bad of [
      'line\nbreak',
      'carriage\rreturn',
      'nul\0nul',
      'delete\x7f',
      'next\u0085line',
      '\ud800',
    ]) {
      refuses(() => checkValue(bad), /cannot be sent in a header/, bad)
    }
  })
})

describe('metadata', () => {
  it('is bounded in entries, keys, values and as a whole, counted in bytes', () => {
    const many = (count: number) =>
      Object.fromEntries(Array.from({ length: count }, (_, at) => [`k${at}`, '']))
    checkMetadata({})
    checkMetadata(many(32))
    refuses(() => checkMetadata(many(33)), /more than 32 entries/, '')
    checkMetadata({ ['é'.repeat(64)]: 'é'.repeat(512) })
    refuses(() => checkMetadata({ [`${'é'.repeat(64)}k`]: '' }), /key is longer than 128/, 'ééééé')
    refuses(() => checkMetadata({ k: `${'é'.repeat(512)}v` }), /value is longer than 1024/, 'ééééé')
    refuses(() => checkMetadata({ '': 'v' }), /key is empty/, '')
    const keys = 'abcdefgh'.split('')
    const whole = Object.fromEntries(keys.map((key) => [key, 'v'.repeat(1023)]))
    checkMetadata(whole)
    refuses(() => checkMetadata({ ...whole, i: '' }), /longer than 8192 bytes in total/, '')
  })
})
