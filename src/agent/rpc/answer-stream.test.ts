import assert from 'node:assert/strict'
import { IncomingMessage, ServerResponse } from 'node:http'
import { Socket } from 'node:net'
import { test } from 'node:test'
import { AnswerStream } from './answer-stream.ts'

test('a writer waits once for a reader that does not read, however much more is written meanwhile', () => {
  const response = new ServerResponse(new IncomingMessage(new Socket()))
  const answer = new AnswerStream<string>(response, 'application/connect+json', (text) => text)
  let drained = 0
  answer.onDrain = () => {
    drained++
  }
  for (let i = 0; i < 20; i++) {
    answer.send('x'.repeat(64 * 1024))
    answer.flush()
  }
  assert.equal(answer.isFull, true)
  assert.equal(response.listenerCount('drain'), 1)
  response.emit('drain')
  assert.equal(drained, 1)
})
