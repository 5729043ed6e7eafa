import assert from 'node:assert/strict'
import { suite, test } from 'node:test'
import { EventType } from '../../contract/rpc/filesystem_pb.ts'
import { AppError, isAppError } from '../../lib/app-error.ts'
import { ChangeQueue } from './change-queue.ts'

suite('a queue of changes', () => {
  test('returns waiting changes at once, and otherwise waits for the next', async () => {
    const queue = new ChangeQueue()
    queue.push('a', EventType.CREATE)
    queue.push('a', EventType.WRITE)
    assert.equal((await queue.next(1000))?.length, 2)
    const waiting = queue.next(60_000)
    queue.push('b', EventType.REMOVE)
    assert.deepEqual(await waiting, [{ name: 'b', type: EventType.REMOVE }])
    assert.equal(await queue.next(1), 'silence')
  })

  test('fails after its waiting changes when it grows too long, and takes no more', async () => {
    const queue = new ChangeQueue()
    for (let i = 0; i < 20_000; i++) queue.push(String(i), EventType.CREATE)
    assert.equal(queue.over, true)
    assert.equal(queue.drain().length, 16_384)
    assert.throws(
      () => queue.drain(),
      (error) => isAppError(error, 'limit_reached'),
    )
    await assert.rejects(queue.next(1000), (error) => isAppError(error, 'limit_reached'))
  })

  test('returns its waiting changes after it has ended and then nothing; a later failure has no effect', async () => {
    const queue = new ChangeQueue()
    queue.push('a', EventType.CREATE)
    queue.end()
    queue.fail(new AppError('internal', 'late'))
    queue.push('b', EventType.CREATE)
    assert.deepEqual(await queue.next(1000), [{ name: 'a', type: EventType.CREATE }])
    assert.equal(await queue.next(1000), undefined)
  })
})
