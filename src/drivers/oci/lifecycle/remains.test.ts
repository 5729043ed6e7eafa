import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { setImmediate } from 'node:timers/promises'
import { ManualClock } from '../../../lib/clock.ts'
import { SandboxRemains } from './remains.ts'

describe('the remains of stopped sandboxes', () => {
  it('are dismantled once no sandbox starts', async () => {
    const { remains, clock, gone } = setUp()
    remains.noteStart()
    await remains.add('a')
    assert.deepEqual([gone, remains.has('a')], [[], true])
    clock.advance(400)
    remains.noteStart()
    await pass(clock, 400)
    assert.deepEqual(gone, [])
    await pass(clock, 1000)
    assert.deepEqual([gone, remains.has('a')], [['a'], false])
  })

  it('are dismantled after ten seconds in any case', async () => {
    const { remains, clock, gone } = setUp()
    await remains.add('a')
    for (let passedMs = 0; passedMs < 9600; passedMs += 400) await passStarting(400)
    assert.deepEqual(gone, [])
    for (let passedMs = 0; passedMs < 1200; passedMs += 400) await passStarting(400)
    assert.deepEqual(gone, ['a'])

    async function passStarting(ms: number) {
      remains.noteStart()
      await pass(clock, ms)
    }
  })

  it('have a maximum number: at the maximum, `add` waits until the oldest is dismantled', async () => {
    const { remains, gone } = setUp()
    remains.noteStart()
    for (const sandboxID of ['a', 'b', 'c', 'd']) await remains.add(sandboxID)
    assert.deepEqual(gone, ['a', 'b'])
  })

  it('are dismantled at once when a start needs their id, and once only', async () => {
    const { remains, gone } = setUp()
    await remains.add('a')
    await Promise.all([remains.finish('a'), remains.finish('a'), remains.finish('b')])
    assert.deepEqual([gone, remains.has('a')], [['a'], false])
  })

  it('exist until they are dismantled, and closing waits for that', async () => {
    const going = Promise.withResolvers<void>()
    const { remains } = setUp(() => going.promise)
    await remains.add('a')
    const finished = [remains.finish('a'), remains.finishAll()]
    assert.equal(remains.has('a'), true)
    going.resolve()
    await Promise.all(finished)
    assert.equal(remains.has('a'), false)
  })

  it('are dismantled even after the clock was set back', async () => {
    const { remains, clock, gone } = setUp()
    remains.noteStart()
    clock.advance(-60_000)
    await remains.add('a')
    await pass(clock, 500)
    assert.deepEqual(gone, ['a'])
  })
})

function setUp(wait: () => Promise<void> = async () => {}) {
  const clock = new ManualClock()
  const gone: string[] = []
  const removeParts = async (sandboxID: string) => {
    await wait()
    gone.push(sandboxID)
  }
  return { remains: new SandboxRemains({ removeParts, max: 2, clock }), clock, gone }
}

/** Turns the clock, and returns when the work that became due is done. */
async function pass(clock: ManualClock, ms: number): Promise<void> {
  clock.advance(ms)
  await setImmediate()
}
