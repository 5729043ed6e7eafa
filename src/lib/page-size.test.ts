import assert from 'node:assert/strict'
import { execFileSync } from 'node:child_process'
import test from 'node:test'
import { pageBytes } from './page-size.ts'

test('the size of a page is the one that the kernel tells programs', () => {
  assert.equal(pageBytes(), Number(execFileSync('getconf', ['PAGESIZE'], { encoding: 'utf8' })))
  const vector = Buffer.alloc(48)
  vector.set([16], 0)
  vector.set([6], 16)
  vector.writeBigUInt64LE(65_536n, 24)
  assert.equal(pageBytes(vector), 65_536)
  assert.equal(pageBytes(Buffer.alloc(0)), 4096)
})
