import assert from 'node:assert/strict'
import test from 'node:test'
import { BlockQueue, type QueuedBlock } from './block-queue.ts'

function world({ blocks = 40, there = [] as number[], holes = [] as number[] } = {}) {
  const isThere = Array.from({ length: blocks }, (_, block) => there.includes(block))
  const complete = (block: number) => {
    isThere[block] = true
  }
  const parts = new Map(isThere.map((_, block) => [block, [block]]))
  for (const block of holes) parts.delete(block)
  const state = { isStarting: true }
  const queue = new BlockQueue({ isThere, complete }, parts, () => state.isStarting)
  const next = () => {
    const given: QueuedBlock[] = []
    for (let next = queue.next(); next; next = queue.next()) given.push(next)
    return given
  }
  const finish = (given: readonly QueuedBlock[]) => {
    for (const one of given) {
      complete(one.block)
      queue.release(one)
    }
  }
  return { queue, state, isThere, next, finish }
}

const numbers = (given: readonly QueuedBlock[]) => given.map(({ block }) => block)

test('a start gets the memory of the agent and the newest memory first, then one block after the other', () => {
  const { next, finish } = world()
  const order: number[] = []
  for (let round = 0; round < 8; round++) {
    const given = next()
    order.push(...numbers(given))
    finish(given)
  }
  assert.deepEqual(order, [39, 38, 37, 36, 35, 34, 0, 1, 2, 3, 4, 5, 6])
})

test('after the start several arrive at once, each once', () => {
  const { next, finish, state } = world()
  state.isStarting = false
  const order: number[] = []
  let max = 0
  for (let given = next(); given.length > 0; given = next()) {
    max = Math.max(max, given.length)
    order.push(...numbers(given))
    finish(given)
  }
  assert.equal(max, 3)
  assert.deepEqual(
    order.toSorted((one, other) => one - other),
    [...Array(40).keys()],
  )
})

test('a block for which a thread waits comes before all others, and others leave it the bandwidth', () => {
  const { queue, next, finish, state } = world()
  state.isStarting = false
  const first = next()
  queue.want(20)
  queue.want(20)
  const urgent = next()
  assert.deepEqual(urgent, [{ block: 20, parts: [20], kind: 'urgent' }])
  finish(first)
  const beside = next()
  assert.deepEqual(numbers(beside), [37, 36])
  finish([...urgent, ...beside])
})

test("gVisor's read-ahead is not urgent, however far it has come", () => {
  const { queue, next, finish, isThere } = world()
  for (let block = 0; block < 6; block++) queue.want(block)
  assert.deepEqual(numbers(next()), [39, 38])
  finish([])
  for (let block = 0; block < 15; block++) isThere[block] = true
  queue.want(20)
  queue.want(22)
  assert.deepEqual(
    next().map(({ block, kind }) => [block, kind]),
    [[22, 'urgent']],
  )
})

test('what is there is not fetched again, and a block without parts is complete', () => {
  const { next, isThere } = world({ blocks: 3, there: [0], holes: [1] })
  assert.deepEqual(numbers(next()), [2])
  assert.deepEqual(isThere, [true, true, false])
})
