import assert from 'node:assert/strict'
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { test } from 'node:test'
import { ManualClock } from './clock.ts'
import { isProcessThere, LivenessProbe } from './liveness-probe.ts'

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

test('a silence that is found for one connection ends those that came before the question, too', async () => {
  const { world, probe, advance, connect } = setUp()
  const [early, late] = [connect(), connect()]
  probe.watch(early)
  await advance(2000)
  world.isThere = false
  probe.watch(late)
  await advance(1000)
  assert.deepEqual([early.ended, late.ended], ['the other side is silent', 'the other side is silent'])
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

/** Prints its port, and sends back what it gets. */
const echoServer = `
  const server = require('node:net').createServer((socket) => socket.on('error', () => {}).pipe(socket))
  server.listen(0, '127.0.0.1', () => console.log(server.address().port))`

test('a process that is stopped is not there, although its kernel accepts connections, until it goes on', async () => {
  const child = spawn(process.execPath, ['-e', echoServer], { stdio: ['ignore', 'pipe', 'inherit'] })
  try {
    const [port] = await once(child.stdout, 'data')
    const target = { host: '127.0.0.1', port: Number(port) }
    const ask = () => Promise.all([isProcessThere(target), isProcessThere(target, Buffer.from('question'))])
    assert.deepEqual(await ask(), [true, true])
    child.kill('SIGSTOP')
    assert.deepEqual(await ask(), [false, false])
    child.kill('SIGCONT')
    assert.deepEqual(await ask(), [true, true])
    child.kill('SIGKILL')
    await once(child, 'exit')
    assert.equal(await isProcessThere(target), true, 'the machine says that the process has ended')
  } finally {
    child.kill('SIGKILL')
  }
})
