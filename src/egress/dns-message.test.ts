import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { mutate, newSeed, seeded } from '../../test/support/fuzz.ts'
import { dnsQuery } from './dns-fixture.ts'
import { answersQuestion, readQuestion, resultCodes, writeAnswer, writeQuestion } from './dns-message.ts'

describe('DNS messages', () => {
  it('are read and written again unchanged', () => {
    const question = readQuestion(dnsQuery('Good.Example', 1, 4711, 4096))!
    assert.deepEqual(
      [question.id, question.name, question.type, question.maxBytes],
      [4711, 'good.example', 1, 1232],
    )
    const asked = writeQuestion(question, 99)
    assert.deepEqual(readQuestion(asked), { ...question, id: 99 })
    const padded = Buffer.concat([dnsQuery('good.example'), Buffer.from('smuggled')])
    assert.ok(!writeQuestion(readQuestion(padded)!, 1).includes('smuggled'))
  })

  it('are rejected with pointers, endless names, or more than a question', () => {
    const pointer = Buffer.concat([dnsQuery('').subarray(0, 12), Buffer.from([0xc0, 12, 0, 1, 0, 1])])
    const long = dnsQuery(Array(130).fill('a').join('.'))
    const withAnswer = dnsQuery('a.example')
    withAnswer[7] = 1
    for (const message of [pointer, long, withAnswer, Buffer.alloc(0), Buffer.alloc(600)]) {
      assert.equal(readQuestion(message), null)
    }
    assert.ok(readQuestion(dnsQuery(Array(126).fill('a').join('.'))))
  })

  it('are rejected if a label contains a dot, which would make another name of it', () => {
    const label = Buffer.from('\x0cgood.example\0\0\x01\0\x01', 'latin1')
    const message = Buffer.concat([dnsQuery('').subarray(0, 12), label])
    assert.equal(readQuestion(message)!.name, null)
  })

  it('get answers no longer than themselves', () => {
    for (const edns of [undefined, 1232]) {
      const message = dnsQuery('good.example', 1, 1, edns)
      assert.ok(writeAnswer(readQuestion(message)!, resultCodes.refused).length <= message.length)
    }
  })

  it('never break the reader, for any bytes', () => {
    const seed = newSeed()
    const random = seeded(seed)
    const message = dnsQuery('a.good.example', 1, 7, 1232)
    const original = readQuestion(message)!
    const started = performance.now()
    for (let turn = 0; turn < 30_000; turn++) {
      const bytes = mutate(message, random)
      const question = readQuestion(bytes)
      if (question) {
        assert.ok(question.wire.length <= 259 && question.maxBytes <= 1232, `seed ${seed}`)
        const again = readQuestion(writeQuestion(question, question.id))
        assert.deepEqual([again?.name, again?.type], [question.name, question.type], `seed ${seed}`)
      }
      // Not an answer: the bit that says so is never set here but by chance.
      if (answersQuestion(bytes, original, 7)) assert.ok(bytes[2]! & 0x80, `seed ${seed}`)
    }
    assert.ok(performance.now() - started < 10_000)
  })
})
