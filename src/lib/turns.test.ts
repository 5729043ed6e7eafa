import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { Turns } from './turns.ts'

const later = () => new Promise<void>((resolve) => setImmediate(resolve))

describe('turns', () => {
  it('come one after another, each with the row as it is then', async () => {
    let row = 'first'
    const turns = new Turns(async () => row)
    const seen: (string | undefined)[] = []
    const one = turns.acquire('a', async (turn) => {
      seen.push(turn.row)
      await later()
      row = 'second'
    })
    const two = turns.acquire('a', async (turn) => void seen.push(turn.row))
    await Promise.all([one, two])
    assert.deepEqual(seen, ['first', 'second'])
    assert.equal(turns.has('a'), false)
  })

  it('of other ids do not wait, and a failed turn lets the next one run', async () => {
    const turns = new Turns(async (id) => id)
    const stuck = Promise.withResolvers<void>()
    const failing = turns.acquire('a', async () => {
      await stuck.promise
      throw new Error('no')
    })
    assert.equal(await turns.acquire('b', async ({ row }) => row), 'b')
    const next = turns.acquire('a', async ({ row }) => row)
    stuck.resolve()
    await assert.rejects(failing, /no/)
    assert.equal(await next, 'a')
  })

  it('are refused to a caller that takes only a free one', async () => {
    const turns = new Turns(async (id) => id)
    const blocked = Promise.withResolvers<void>()
    const holder = turns.begin('a', () => blocked.promise)
    assert.equal(
      turns.acquireIfFree('a', async () => 'mine'),
      undefined,
    )
    blocked.resolve()
    await holder
    assert.equal(await turns.acquireIfFree('a', async () => 'mine'), 'mine')
  })

  it('are cancelled together with all that wait at that moment, and with none later', async () => {
    const turns = new Turns(async (id) => id)
    const reason = new Error('killed')
    const signals: AbortSignal[] = []
    const wait = () =>
      turns.acquire('a', async ({ signal }) => {
        signals.push(signal)
        await later()
      })
    const both = Promise.all([wait(), wait()])
    turns.cancel('a', reason)
    const last = wait()
    await both
    await last
    assert.deepEqual(
      signals.map(({ aborted }) => aborted),
      [true, true, false],
    )
    assert.equal(signals[0]!.reason, reason)
  })

  it('can be awaited until all are over', async () => {
    const turns = new Turns(async (id) => id)
    let isDone = false
    void turns.acquire('a', async () => {
      await later()
      isDone = true
    })
    await turns.allFinished()
    assert.equal(isDone, true)
  })
})
