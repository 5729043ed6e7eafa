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
  // Begins with an empty young generation, so that garbage of the test itself does not fill it. If V8 has marked the whole
  // heap for its own reasons by then, it finishes that with a full collection in place of the requested one.
  for (let attempt = 0; attempt < 5; attempt++) {
    const [kind] = await seenAfter(4 * mebibyte)
    if (kind === constants.NODE_PERFORMANCE_GC_MINOR) break
  }
  assert.deepEqual(await seenAfter(3 * mebibyte), [])
  assert.deepEqual(await seenAfter(mebibyte), [constants.NODE_PERFORMANCE_GC_MINOR])
  assert.deepEqual(await seenAfter(mebibyte), [])
  observer.disconnect()
})
