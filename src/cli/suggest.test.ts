import assert from 'node:assert/strict'
import { test } from 'node:test'
import { didYouMean, nearestWords, suggestCommands } from './suggest.ts'

const commands = [
  { name: 'start' },
  { name: 'sandbox', verbs: { list: [], logs: [] } },
  { name: 'volume', verbs: { list: [] } },
]

test('a mistyped command gets a suggestion', () => {
  assert.deepEqual(suggestCommands('sanbdox', commands), ['warren sandbox'])
  assert.deepEqual(suggestCommands('sandboxes', commands), ['warren sandbox'])
  assert.deepEqual(suggestCommands('stat', commands), ['warren start'])
  assert.deepEqual(suggestCommands('deploy', commands), [])
  assert.equal(didYouMean(['warren start']), ' Did you mean `warren start`?')
  assert.equal(didYouMean([]), '')
})

test('a verb alone gets the commands that have it', () => {
  assert.deepEqual(suggestCommands('logs', commands), ['warren sandbox logs'])
  assert.deepEqual(suggestCommands('list', commands), ['warren sandbox list', 'warren volume list'])
})

test('a word of two letters is similar to few others', () => {
  assert.deepEqual(nearestWords('ls', ['list', 'logs', 'info']), [])
  assert.deepEqual(nearestWords('kil', ['list', 'kill', 'info']), ['kill'])
  assert.deepEqual(nearestWords('__proto__', []), [])
})
