import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { newSeed, seeded } from '../../test/support/fuzz.ts'
import { matchesName } from '../core/network-policy/name-patterns.ts'
import { readAuthority, readHostName } from './host-name.ts'

const nameOf = (text: string): string | null => {
  const read = readHostName(text)
  return read && 'name' in read ? read.name : null
}

describe('host names', () => {
  it('have one form', () => {
    for (const [text, name] of [
      ['x.com', 'x.com'],
      ['X.CoM.', 'x.com'],
      ['localhost', 'localhost'],
      ['_acme.x-y.com', '_acme.x-y.com'],
      ['BÜCHER.example', 'xn--bcher-kva.example'],
      ['bu\u0308cher.example', 'xn--bcher-kva.example'],
      ['a\u3002b.com', 'a.b.com'],
      ['\uff41.com', 'a.com'],
      [`${'a'.repeat(63)}.com`, `${'a'.repeat(63)}.com`],
    ] as const) {
      assert.equal(nameOf(text), name, text)
    }
  })

  it('are rejected if they are ambiguous', () => {
    const bad = [
      '',
      '.',
      '..',
      'a..b',
      '.a',
      'a.b..',
      'a b',
      'a\0b',
      'a\nb',
      'a/b',
      'a\\b',
      'a@b',
      'a%62',
      'a:b',
      '-a',
      'a-',
    ]
    const long = [`${'a'.repeat(64)}.com`, Array(128).fill('ab').join('.'), 'ü'.repeat(2000)]
    const numbers = [
      '1',
      '127.1',
      '0x7f.1',
      '2130706433',
      'a.0x7f',
      '1.2.3.4.5',
      '256.1.1.1',
      '01.2.3.4',
      '[::1]',
      '::1',
    ]
    const unicode = ['ü@b', 'ü/b', 'ü%62', 'ü#b', 'ü\0', 'a\u200db.com', '\u2100.com', 'ü..b', '\ufffd.com']
    for (const text of [...bad, ...long, ...numbers, ...unicode]) assert.equal(readHostName(text), null, text)
  })

  it('are not addresses', () => {
    assert.deepEqual(readHostName('192.0.2.1'), { address: '192.0.2.1' })
    assert.deepEqual(readHostName('\uff11.2.3.4'), { address: '1.2.3.4' })
    assert.equal(readAuthority('192.0.2.1:99999999'), null)
    assert.deepEqual(readAuthority('x.com:8080'), { name: 'x.com', portSuffix: ':8080' })
  })

  it('match like a slow, obviously correct model', () => {
    const seed = newSeed()
    const random = seeded(seed)
    const labels = ['a', 'b', 'ab', 'x-a', '_a']
    const randomName = () => Array.from({ length: 1 + random.below(4) }, () => random.pick(labels)).join('.')
    for (let turn = 0; turn < 20_000; turn++) {
      const pattern = random.pick(['*', randomName(), `*.${randomName()}`])
      const name = randomName()
      assert.equal(matchesName(pattern, name), model(pattern, name), `seed ${seed}: ${pattern} ${name}`)
    }
  })
})

/** Label by label, from the right. */
function model(pattern: string, name: string): boolean {
  if (pattern === '*') return true
  const [wanted, given] = [pattern.split('.').reverse(), name.split('.').reverse()]
  for (let at = 0; at < wanted.length; at++) {
    if (wanted[at] === '*') return at === wanted.length - 1 && given.length > at
    if (wanted[at] !== given[at]) return false
  }
  return given.length === wanted.length
}
