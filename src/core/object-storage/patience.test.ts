import assert from 'node:assert/strict'
import test from 'node:test'
import { ManualClock } from '../../lib/clock.ts'
import { Patience, patienceMs } from './patience.ts'

function world() {
  const clock = new ManualClock()
  const failures: unknown[] = []
  const patience = new Patience(clock, (error) => failures.push(error))
  const { signal } = new AbortController()
  /** Lets pending steps run, and turns the clock. */
  const pass = async (ms: number) => {
    for (let passed = 0; passed < ms; passed += 1000) {
      await new Promise((done) => setImmediate(done))
      clock.advance(1000)
    }
    await new Promise((done) => setImmediate(done))
  }
  return { patience, failures, signal, pass }
}

test('a read that fails is tried again until it succeeds, and only the first failure is told', async () => {
  const { patience, failures, signal, pass } = world()
  let left = 5
  const read = patience.try(async () => {
    if (left-- > 0) throw new Error('away')
    return 'bytes'
  }, signal)
  await pass(20_000)
  assert.equal(await read, 'bytes')
  assert.equal(failures.length, 1)
})

test('a read is tried less and less often while the store is away, and soon after it is back', async () => {
  const { patience, signal, pass } = world()
  let [tries, isUnreachable] = [0, true]
  const read = patience.try(async () => {
    tries++
    if (isUnreachable) throw new Error('away')
    return 'bytes'
  }, signal)
  await pass(60_000)
  assert.ok(tries >= 10 && tries <= 15, `${tries} tries in a minute`)
  isUnreachable = false
  await pass(6000)
  assert.equal(await Promise.race([read, 'still waits']), 'bytes')
})

test('reads give up when none of them has succeeded for minutes', async () => {
  const { patience, signal, pass } = world()
  let isUnreachable = true
  const read = () =>
    patience.try(async () => {
      if (isUnreachable) throw new Error('away')
    }, signal)
  const outcome = read().then(
    () => 'read',
    () => 'gave up',
  )
  await pass(patienceMs - 10_000)
  isUnreachable = false
  await read()
  await pass(6000)
  isUnreachable = true
  const second = read().then(
    () => 'read',
    () => 'gave up',
  )
  await pass(patienceMs - 10_000)
  assert.equal(await Promise.race([second, 'pending']), 'pending')
  await pass(20_000)
  assert.deepEqual([await outcome, await second], ['read', 'gave up'])
})

test('an abort ends the tries', async () => {
  const { patience, pass } = world()
  const abort = new AbortController()
  const read = patience.try(() => Promise.reject(new Error('away')), abort.signal)
  read.catch(() => {})
  await pass(3000)
  abort.abort(new Error('closing'))
  await assert.rejects(read, /closing/)
})
