import assert from 'node:assert/strict'
import { test } from 'node:test'
import { StatementNames } from './statement-names.ts'

const use = (names: StatementNames, text: string, times: number): (string | undefined)[] =>
  Array.from({ length: times }, () => names.nameOf(text))

test('a statement gets a name of its own when it comes the third time', () => {
  const names = new StatementNames()
  const [first, second, third, fourth] = use(names, 'select 1', 4)
  assert.deepEqual([first, second], [undefined, undefined])
  assert.ok(third !== undefined)
  assert.equal(fourth, third)
  assert.notEqual(use(names, 'select 2', 3)[2], third)
})

test('a long statement, and one whose best plan depends on its values, get no name', () => {
  const names = new StatementNames()
  const texts = [`select ${'1, '.repeat(1000)}1`, 'select 1 from "sandbox_metadata" where "pair_hash" = $1']
  for (const text of texts)
    assert.deepEqual(use(names, text, 4), [undefined, undefined, undefined, undefined])
})

test('a limited number of statements gets names, and those that came once do not take them', () => {
  const names = new StatementNames()
  for (let number = 0; number < 5000; number++) names.nameOf(`select ${number}`)
  const named = Array.from({ length: 1000 }, (_, number) => use(names, `select 0, ${number}`, 3)[2])
  assert.equal(named.filter((name) => name !== undefined).length, 250)
  assert.equal(new Set(named).size, 251)
})

test('after a renewal no statement has a name that was given before', () => {
  const names = new StatementNames()
  const before = use(names, 'select 1', 3)[2]
  names.renew()
  const after = use(names, 'select 1', 3)[2]
  assert.ok(after !== undefined && after !== before)
})
