import assert from 'node:assert/strict'
import { PassThrough } from 'node:stream'
import { test } from 'node:test'
import { type KernelEvent, readEvents } from './event-lines.ts'
import { wireResult } from './wire-result.ts'

function eventsOf(...lines: string[]): KernelEvent[] {
  const source = new PassThrough()
  const events: KernelEvent[] = []
  readEvents(
    source,
    (event) => events.push(event),
    () => assert.fail('broken'),
  )
  source.emit('data', Buffer.from(`${lines.join('\n')}\n`))
  return events
}

const wire = (bundle: string): string => {
  const [event] = eventsOf(`{"type":"result","main":true,"data":${bundle}}`)
  assert.equal(event?.type, 'result')
  return event.type === 'result' ? JSON.stringify(wireResult(event.data, event.main)) : ''
}

test('numbers of charts, tables and JSON reach clients as the kernel wrote them', () => {
  const numbers = '[1.0,1,-0.0,1e+16,12345678901234567890,0.1,2.50]'
  for (const [type, field] of [
    ['e2b/chart', 'chart'],
    ['e2b/data', 'data'],
    ['application/json', 'json'],
  ]) {
    const line = wire(`{"${type}":{"x_ticks":${numbers},"text":"1.0","none":null,"yes":true}}`)
    const expected = `{"type":"result","${field}":{"x_ticks":${numbers},"text":"1.0","none":null,"yes":true},"is_main_result":true}`
    assert.equal(line, expected)
  }
})

test('other events are read as before', () => {
  assert.deepEqual(eventsOf('{"type":"started","count":3}', '{"type":"done"}'), [
    { type: 'started', count: 3 },
    { type: 'done' },
  ])
})
