/** Archives that try to write, remove or read outside of their layer. */
import assert from 'node:assert/strict'
import { execFileSync } from 'node:child_process'
import { existsSync, lstatSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { test } from 'node:test'
import { isAppError } from '../lib/app-error.ts'
import type { MadeEntry } from './archive-fixture.ts'
import { home, isWhiteout, nothingOutside, outside, write } from './layer-fixture.ts'

test('absolute names are taken relative to the layer', () => {
  const { at } = write([
    { name: '/etc/file', content: 'in' },
    { name: '/hard', type: '1', target: '/etc/file' },
  ])
  assert.equal(readFileSync(at('hard'), 'utf8'), 'in')
})

test('a link in the path of a file is followed within the layer and nowhere else', () => {
  for (const target of [home, '../../../../../../..', '/', '/proc/self/root', '..', 'a/../../..']) {
    const { at } = write([
      { name: 'l', type: '2', target },
      { name: 'l/outside', content: 'evil' },
    ])
    assert.ok(lstatSync(at('l')).isSymbolicLink())
    const inside = execFileSync('find', [at(''), '-name', 'outside']).toString()
    assert.match(inside, /outside\n$/, target)
    nothingOutside()
  }
  const { at } = write([
    { name: 'usr/bin/', type: '5' },
    { name: 'bin', type: '2', target: 'usr/bin' },
    { name: 'bin/sh', content: 'shell' },
  ])
  assert.equal(readFileSync(at('usr/bin/sh'), 'utf8'), 'shell')
})

test('a file over a link replaces the link', () => {
  const { at, stat } = write([
    { name: 'l', type: '2', target: outside },
    { name: 'l', content: 'evil' },
  ])
  assert.ok(stat('l').isFile())
  assert.equal(readFileSync(at('l'), 'utf8'), 'evil')
  nothingOutside()
})

test("a folder over a link replaces the link, and does not change the link's target", () => {
  const { stat } = write([
    { name: 'l', type: '2', target: home },
    { name: 'l/', type: '5', mode: 0o777, uid: 42 },
  ])
  assert.ok(stat('l').isDirectory())
  assert.notEqual(lstatSync(home).uid, 42)
})

test('a file that is removed through a link is removed in the layer', () => {
  const { at } = write([
    { name: 'l', type: '2', target: home },
    { name: 'l/.wh.outside' },
    { name: 'l/.wh..wh..opq' },
  ])
  assert.ok(lstatSync(at('l')).isSymbolicLink())
  assert.ok(isWhiteout(lstatSync(join(at(''), home, 'outside'))))
  nothingOutside()
})

const refused: Record<string, MadeEntry[]> = {
  'a name with ..': [{ name: '../outside', content: 'evil' }],
  'a name with .. within': [{ name: 'a/../../outside', content: 'evil' }],
  'a folder ..': [{ name: '..', type: '5', mode: 0o777 }],
  'a hard link to a file outside': [{ name: 'l', type: '1', target: '../outside' }],
  'a hard link to a file of the machine': [{ name: 'l', type: '1', target: '/etc/passwd' }],
  'a hard link through a link': [
    { name: 'd', type: '2', target: home },
    { name: 'l', type: '1', target: 'd/outside' },
  ],
  'a hard link to a folder': [
    { name: 'd/', type: '5' },
    { name: 'l', type: '1', target: 'd' },
  ],
  'a hard link to a removal': [{ name: '.wh.d' }, { name: 'l', type: '1', target: 'd' }],
  'a removal of ..': [{ name: 'a/.wh...', content: '' }],
  'a removal of .': [{ name: 'a/.wh..', content: '' }],
  'a removal of nothing': [{ name: '.wh.' }],
  'a file within a file': [
    { name: 'f', content: 'x' },
    { name: 'f/g', content: 'evil' },
  ],
  'links in a ring': [
    { name: 'a', type: '2', target: 'b' },
    { name: 'b', type: '2', target: 'a' },
    { name: 'a/f', content: 'x' },
  ],
  'a name with a zero byte': [{ name: 'a', pax: { path: 'a\0b' } }],
  'a link with a zero byte': [{ name: 'a', type: '2', pax: { linkpath: 'a\0b' } }],
  'a link without a target': [{ name: 'a', type: '2', target: '' }],
  'a name part of 256 bytes': [{ name: 'a', pax: { path: 'n'.repeat(256) } }],
  'a name of 5000 bytes': [{ name: 'a', pax: { path: 'n/'.repeat(2500) } }],
  'a root that is a link': [{ name: './', type: '2', target: home }],
}

for (const [what, entries] of Object.entries(refused)) {
  test(`${what} is rejected with the reason, and nothing outside is touched`, () => {
    assert.throws(
      () => write(entries),
      (error) => isAppError(error, 'unprocessable'),
    )
    nothingOutside()
    assert.ok(!existsSync(join(home, 'evil')))
  })
}

test('more entries than allowed are rejected', () => {
  const many = Array.from({ length: 11 }, (_, i) => ({ name: `f${i}` }))
  assert.throws(() => write(many, { maxEntries: 10 }), /more than 10 entries/)
})

test('folders that are named only as parts of paths count as entries', () => {
  const deep = [{ name: 'x', pax: { path: `${'d/'.repeat(1000)}file` } }]
  assert.throws(() => write(deep, { maxEntries: 1000 }), { code: 'payload_too_large' })
  write(deep, { maxEntries: 1001 })
})
