import assert from 'node:assert/strict'
import type { ServerResponse } from 'node:http'
import { PassThrough } from 'node:stream'
import { test } from 'node:test'
import { ManualClock } from '../lib/clock.ts'
import { ExecutionStream } from './execution-stream.ts'

function open() {
  const sent = new PassThrough()
  const response = Object.assign(sent, { writeHead: () => {}, flushHeaders: () => {} })
  const source = { pauseOutput: () => {}, resumeOutput: () => {} }
  const stream = new ExecutionStream(response as unknown as ServerResponse, source, new ManualClock())
  const types = () => {
    stream.end()
    const lines = (sent.read() as Buffer).toString().trim().split('\n')
    return lines.map((line) => (JSON.parse(line) as { type: string }).type)
  }
  return { stream, types }
}

test('the number of the execution comes first, although output of the cell was read before it', () => {
  const { stream, types } = open()
  stream.onOutput('stdout', 'a')
  stream.onEvent({ type: 'started', count: 1 })
  stream.onOutput('stderr', 'b')
  assert.deepEqual(types(), ['number_of_executions', 'stdout', 'stderr', 'end_of_execution'])
})

test('output is delivered even if the kernel never reported the start of the cell', () => {
  const { stream, types } = open()
  stream.onOutput('stdout', 'a')
  stream.fail('KernelDied', 'It ended.')
  assert.deepEqual(types(), ['stdout', 'error', 'end_of_execution'])
})

test('endless output before the start of a cell is not kept in memory', () => {
  const { stream, types } = open()
  for (let line = 0; line < 100; line++) stream.onOutput('stdout', 'a')
  stream.onEvent({ type: 'started', count: 1 })
  assert.deepEqual(types().slice(98), ['stdout', 'stdout', 'number_of_executions', 'end_of_execution'])
})
