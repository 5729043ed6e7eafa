import assert from 'node:assert/strict'
import { suite, test } from 'node:test'
import { Tail, type TailBudget } from './tail.ts'

function budgetOf(bytes: number): TailBudget & { left: number } {
  const budget = {
    left: bytes,
    reserve(wanted: number) {
      if (wanted > budget.left) return false
      budget.left -= wanted
      return true
    },
    give(given: number) {
      budget.left += given
    },
  }
  return budget
}

suite('the tail of an output', () => {
  test('is the whole output while that is short', () => {
    const tail = new Tail(100, budgetOf(1000))
    for (const text of ['one ', 'two ', 'three']) tail.append(Buffer.from(text))
    assert.equal(tail.seal().toString(), 'one two three')
  })

  test('is the last part of a long one, however it was cut', () => {
    const whole = Array.from({ length: 10_000 }, (_, i) => `line ${i}\n`).join('')
    for (const step of [1, 7, 1000, 4095, 4096, 4097, whole.length]) {
      const tail = new Tail(4096, budgetOf(10_000))
      for (let at = 0; at < whole.length; at += step) tail.append(Buffer.from(whole.slice(at, at + step)))
      assert.equal(tail.seal().toString(), whole.slice(-4096), `in steps of ${step}`)
    }
  })

  test('begins with a whole character', () => {
    const tail = new Tail(1024, budgetOf(10_000))
    tail.append(Buffer.from('€'.repeat(1000)))
    assert.equal(tail.seal().toString(), '€'.repeat(341))
  })

  test('uses no more memory than it needs, and reports how much', () => {
    const budget = budgetOf(100_000)
    const tail = new Tail(65_536, budget)
    tail.append(Buffer.alloc(10))
    assert.ok(100_000 - budget.left <= 1024)
    assert.equal(tail.seal().length, 10)
    assert.equal(100_000 - budget.left, 10)
  })

  test('is shorter when there is no memory left for it', () => {
    const tail = new Tail(65_536, budgetOf(2048))
    tail.append(Buffer.from('a'.repeat(2048)))
    tail.append(Buffer.from('b'.repeat(1000)))
    assert.equal(tail.seal().toString(), 'a'.repeat(1048) + 'b'.repeat(1000))
    const none = new Tail(65_536, budgetOf(0))
    none.append(Buffer.from('x'))
    assert.equal(none.seal().length, 0)
  })
})
