import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { ManualClock } from '../../lib/clock.ts'
import { VolumeTokens } from './tokens.ts'
import { checkMounts, checkVolumeName } from './volume.ts'

describe('the names and mounts of volumes', () => {
  it('are accepted in one form', () => {
    const wanted = [
      { name: 'a', path: '/mnt//data/./x/' },
      { name: 'a', path: '/mnt/other' },
    ]
    assert.deepEqual(
      checkMounts(wanted).map(({ path }) => path),
      ['/mnt/data/x', '/mnt/other'],
    )
    for (const name of ['a', 'A_b-9', 'x'.repeat(128)]) checkVolumeName(name)
  })

  it('are rejected if they could reach anything else', () => {
    for (const name of ['', 'a b', '../x', 'a/b', 'ü', 'a\n', 'x'.repeat(129)]) {
      assert.throws(() => checkVolumeName(name), /Invalid volume name/)
    }
    const paths = [
      '',
      'mnt',
      '/',
      '//',
      '/.',
      '/a/../b',
      '/..',
      '/proc',
      '/proc/1',
      '/sys/x',
      '/dev/shm',
      '/.warren',
    ]
    const odd = ['/a\0b', '/a\nb', '/\ud800', `/${'x'.repeat(256)}`, `/${'é'.repeat(128)}`, '/ab'.repeat(400)]
    for (const path of [...paths, ...odd, `/${'x'.repeat(4096)}`]) {
      assert.throws(() => checkMounts([{ name: 'a', path }]), { code: 'invalid_argument' }, path)
    }
  })

  it('must not be nested, and are limited in number', () => {
    const mount = (path: string) => ({ name: 'a', path })
    for (const [one, other] of [
      ['/a', '/a'],
      ['/a', '/a/b'],
      ['/a/b/c', '/a/b/'],
    ] as const) {
      assert.throws(() => checkMounts([mount(one), mount(other)]), /lie within each other/)
    }
    checkMounts([mount('/a'), mount('/ab')])
    const many = Array.from({ length: 17 }, (_, at) => mount(`/mnt/${at}`))
    checkMounts(many.slice(1))
    assert.throws(() => checkMounts(many), /at most 16/)
  })
})

describe('the token of a volume', () => {
  it('opens that volume, until it expires', () => {
    const clock = new ManualClock()
    const tokens = new VolumeTokens({ seed: 'seed', clock })
    const token = tokens.issue('one')
    tokens.check('one', token)
    clock.advance(3_600_000 - 1)
    tokens.check('one', token)
    clock.advance(1)
    assert.throws(() => tokens.check('one', token), { code: 'unauthenticated', message: /expired/ })
  })

  it('opens no other volume, on no other server, and cannot be extended', () => {
    const clock = new ManualClock()
    const tokens = new VolumeTokens({ seed: 'seed', clock })
    const token = tokens.issue('one')
    const longer = token.replace(/_(\d+)_/, (_, endsAt) => `_${Number(endsAt) + 1}_`)
    const foreign = new VolumeTokens({ seed: 'other', clock }).issue('one')
    for (const wrong of [undefined, '', 'vol_1_2', `${token}0`, longer, foreign, tokens.issue('two')]) {
      assert.throws(() => tokens.check('one', wrong), { code: 'unauthenticated', message: /send the token/ })
    }
  })
})
