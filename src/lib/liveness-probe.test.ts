import assert from 'node:assert/strict'
import { test } from 'node:test'
import { ManualClock } from './clock.ts'
import { LivenessProbe } from './liveness-probe.ts'

function setUp() {
  const clock = new ManualClock()
  const world = { isThere: true, tries: 0 }
  const isThere = async () => {
    world.tries++
    return world.isThere
  }
  const probe = new LivenessProbe({ isThere, clock })
  const advance = async (ms: number) => {
    for (let passed = 0; passed < ms; passed += 1000) {
      clock.advance(1000)
      for (let turn = 0; turn < 5; turn++) await Promise.resolve()
    }
  }
  const connect = () => {
    const connection = { ended: '', destroy: (error: Error) => (connection.ended = error.message) }
    return connection
  }
  return { world, probe, advance, connect }
}

test('connections to a machine that has vanished end', async () => {
  const { world, probe, advance, connect } = setUp()
  const connection = connect()
  probe.watch(connection)
  await advance(20_000)
  assert.equal(connection.ended, '')
  world.isThere = false
  await advance(10_000)
  assert.equal(connection.ended, 'the other side is silent')
})

test('a connection that is watched only for a moment is not probed', async () => {
  const { world, probe, advance, connect } = setUp()
  for (let count = 0; count < 10; count++) {
    const stop = probe.watch(connect())
    await advance(1000)
    stop()
  }
  assert.equal(world.tries, 0)
  await advance(10_000)
  assert.ok(probe.isIdle)
})

test('a connection that is no longer watched when the answer fails to come is left alone', async () => {
  const { world, probe, advance, connect } = setUp()
  const connection = connect()
  world.isThere = false
  const stop = probe.watch(connection)
  await advance(2000)
  stop()
  await advance(10_000)
  assert.equal(connection.ended, '')
})

test('a connection that is watched again after a break is probed again', async () => {
  const { world, probe, advance, connect } = setUp()
  probe.watch(connect())()
  await advance(10_000)
  const connection = connect()
  world.isThere = false
  probe.watch(connection)
  await advance(10_000)
  assert.notEqual(connection.ended, '')
})
