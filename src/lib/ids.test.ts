import assert from 'node:assert/strict'
import { test } from 'node:test'
import { newSandboxID, newSecretID, newTemplateID, newUUID, randomHex, replaceRandomSource } from './ids.ts'

test('ids have the forms that the API documents', () => {
  assert.match(newSandboxID(), /^i[a-z0-9]{20}$/)
  assert.match(newTemplateID(), /^[a-z0-9]{20}$/)
  assert.match(newUUID(), /^[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$/)
  assert.match(newSecretID(), /^sec_[0-9a-hjkmnp-tv-z]{26}$/)
  assert.match(randomHex(20), /^[0-9a-f]{40}$/)
})

test('every character of an id is as likely as any other', () => {
  let next = 0
  const restore = replaceRandomSource((count) =>
    Buffer.from(Array.from({ length: count }, () => next++ % 256)),
  )
  const text = Array.from({ length: 252 }, newTemplateID).join('')
  restore()
  const counts = new Map<string, number>()
  for (const character of text) counts.set(character, (counts.get(character) ?? 0) + 1)
  assert.deepEqual(new Set(counts.values()), new Set([(252 * 20) / 36]))
})

test('a replaced source of randomness gives the same ids again, and can be removed', () => {
  const draw = () => {
    const restore = replaceRandomSource((count) => Buffer.alloc(count, 7))
    const drawn = [newSandboxID(), newUUID(), randomHex(4)]
    restore()
    return drawn
  }
  assert.deepEqual(draw(), draw())
  assert.notEqual(newUUID(), newUUID())
})
