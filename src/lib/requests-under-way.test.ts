import assert from 'node:assert/strict'
import { EventEmitter } from 'node:events'
import type { Server } from 'node:http'
import { test } from 'node:test'
import { ManualClock } from './clock.ts'
import { RequestsUnderWay } from './requests-under-way.ts'

function open() {
  const clock = new ManualClock()
  const requests = new RequestsUnderWay(clock)
  const server = new EventEmitter()
  requests.watch(server as Server)
  const begin = (event = 'request') => {
    const response = new EventEmitter()
    server.emit(event, {}, response)
    return () => void response.emit('close')
  }
  let isOver = false
  const wait = () => {
    isOver = false
    void requests.letFinish(5000).then(() => {
      isOver = true
    })
  }
  const isOverAfter = async (ms: number) => {
    for (let passed = 0; passed < ms; passed += 20) {
      clock.advance(20)
      await new Promise(setImmediate)
    }
    await new Promise(setImmediate)
    return isOver
  }
  return { clock, begin, wait, isOverAfter }
}

test('requests may finish until they are that old', async () => {
  const { begin, wait, isOverAfter } = open()
  wait()
  assert.equal(await isOverAfter(0), true)
  for (const event of ['request', 'checkContinue']) {
    const end = begin(event)
    wait()
    assert.equal(await isOverAfter(1000), false)
    end()
    assert.equal(await isOverAfter(50), true)
  }
  begin()
  await isOverAfter(3000)
  wait()
  assert.equal(await isOverAfter(1900), false)
  assert.equal(await isOverAfter(100), true)
  wait()
  assert.equal(await isOverAfter(0), true)
})

test('a clock that is set back prolongs nothing', async () => {
  const { clock, begin, wait, isOverAfter } = open()
  begin()
  clock.advance(-3_600_000)
  wait()
  assert.equal(await isOverAfter(5100), true)
})

test('a request that had arrived, and that Node reads only now, may finish too', async () => {
  const { begin, wait, isOverAfter } = open()
  let end = () => {}
  setImmediate(() => {
    end = begin()
  })
  wait()
  assert.equal(await isOverAfter(0), false)
  end()
  assert.equal(await isOverAfter(20), true)
})
