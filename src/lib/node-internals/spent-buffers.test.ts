import assert from 'node:assert/strict'
import { constants, PerformanceObserver } from 'node:perf_hooks'
import test from 'node:test'
import { setImmediate as turn } from 'node:timers/promises'
import { noteSpent } from './spent-buffers.ts'

type NodeEntry = { detail: { kind: number } }

const mebibyte = 1024 * 1024

test('after every four mebibytes of buffers the young generation is collected, and only that', async () => {
  const kinds: number[] = []
  const observer = new PerformanceObserver((list) => {
    for (const entry of list.getEntries()) kinds.push((entry as unknown as NodeEntry).detail.kind)
  })
  observer.observe({ entryTypes: ['gc'] })
  const seenAfter = async (bytes: number) => {
    noteSpent(bytes)
    for (let turns = 0; turns < 3; turns++) await turn()
    return kinds.splice(0)
  }
  // If V8 has marked the whole heap for its own reasons, it finishes that with a full collection in place of the requested
  // one. Each round begins with an empty young generation, and with no bytes of others.
  const rounds: number[][] = []
  for (let round = 0; round < 10; round++) {
    await seenAfter(4 * mebibyte)
    rounds.push([...(await seenAfter(3 * mebibyte)), -1, ...(await seenAfter(mebibyte))])
  }
  const wanted = [-1, constants.NODE_PERFORMANCE_GC_MINOR].join()
  assert.ok(
    rounds.some((round) => round.join() === wanted),
    JSON.stringify(rounds),
  )
  assert.deepEqual(await seenAfter(mebibyte), [])
  observer.disconnect()
})
