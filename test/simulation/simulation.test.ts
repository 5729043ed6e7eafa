import assert from 'node:assert/strict'
import { suite, test } from 'node:test'
import { runHistory } from './history.ts'
import { planHistory } from './plan.ts'
import { openDatabase } from './search.ts'

suite('the simulation of the core', () => {
  test('a seed takes the same course each time', async () => {
    const database = await openDatabase()
    for (const seed of [1, 2, 3]) {
      const [first, second] = [
        await runHistory(database, planHistory(seed), { trace: true }),
        await runHistory(database, planHistory(seed), { trace: true }),
      ]
      assert.ok(first.trace.length > 20)
      assert.deepEqual(first.trace, second.trace)
    }
  })
})
