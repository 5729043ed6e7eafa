import assert from 'node:assert/strict'
import test from 'node:test'
import { usersWithIDs } from './subordinate-ids.ts'

test('users whose range of ids meets that of sandboxes are named, once each', () => {
  const text =
    'ubuntu:100000:65536\n# no:100000:65536\nann:165535:1\nann:99999:2\nben:165536:65536\nold:34464:65536\nbroken\neve:100000:0\n'
  assert.deepEqual(usersWithIDs(text, 100_000), ['ubuntu', 'ann'])
  assert.deepEqual(usersWithIDs('', 100_000), [])
})
