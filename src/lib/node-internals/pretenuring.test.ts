import assert from 'node:assert/strict'
import { execFileSync } from 'node:child_process'
import { join } from 'node:path'
import { test } from 'node:test'

/** The number of allocation sites that V8 moves to the old generation after `before` has run. */
function decisions(before: string): number {
  const work = `
    const { stopPretenuring } = await import(${JSON.stringify(join(import.meta.dirname, 'pretenuring.ts'))})
    ${before}
    const kept = []
    const make = (at) => [at, at + 1, { at }]
    const makeMany = () => {
      for (let at = 0; at < 50_000; at++) kept.push(make(at))
    }
    for (let round = 0; round < 12; round++) makeMany()`
  // In one thread V8 compiles and collects at the same moments each time.
  const v8 = ['--single-threaded', '--max-semi-space-size=1', '--trace-pretenuring-statistics']
  const options = [...v8, '--input-type=module', '-e']
  const traced = execFileSync(process.execPath, [...options, work], { encoding: 'utf8' })
  return traced.split('\n').filter((line) => line.includes('=> tenure')).length
}

test('V8 learns at no place that allocations live long, although it has started with that', () => {
  assert.notEqual(decisions(''), 0)
  assert.equal(decisions('stopPretenuring()'), 0)
})
