import assert from 'node:assert/strict'
import { test } from 'node:test'
import { BoundedText } from './bounded-text.ts'

test('a text within the limit is whole, in any pieces', () => {
  const text = new BoundedText(10)
  for (const piece of ['ab', '', 'cdefg', 'hij']) text.add(piece)
  assert.equal(`${text}`, 'abcdefghij')
})

test('a longer text keeps its beginning and end, and the omitted part is counted', () => {
  const text = new BoundedText(10)
  for (let at = 0; at < 1000; at++) text.add(String(at % 10))
  assert.equal(`${text}`, '01234\n[… 990 characters are left out …]\n56789')
  const once = new BoundedText(4)
  once.add('abcdefgh')
  assert.equal(`${once}`, 'ab\n[… 4 characters are left out …]\ngh')
})
