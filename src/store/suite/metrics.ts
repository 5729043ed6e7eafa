import assert from 'node:assert/strict'
import type { SandboxMetric } from '../../core/sandbox/monitoring/metric.ts'
import { time } from './rows.ts'
import type { StoreTest } from './store-test.ts'

const gigabyte = 2 ** 30

const sample = (changes: Partial<SandboxMetric> = {}): SandboxMetric => ({
  sandboxID: 'ione',
  at: time,
  cpuCount: 2,
  cpuUsedPct: 12.34,
  memoryUsedBytes: 5 * gigabyte,
  memoryCacheBytes: 1,
  memoryTotalBytes: 8 * gigabyte,
  diskUsedBytes: 0,
  diskTotalBytes: 20 * gigabyte,
  ...changes,
})

export function metricSuite(storeTest: StoreTest): void {
  storeTest('metrics are read back unchanged, oldest first, within both bounds', async ({ metrics }) => {
    const [first, second, third] = [0, 1, 2].map((step) => sample({ at: time + step }))
    await metrics.append([third!, first!, second!])
    await metrics.append([])
    assert.deepEqual(await metrics.range('ione', time, time + 2), [first, second, third])
    assert.deepEqual(await metrics.range('ione', time + 1, time + 1), [second])
    assert.deepEqual(await metrics.range('ione', 0, time - 1), [])
    assert.deepEqual(await metrics.range('itwo', 0, time + 9), [])
  })

  storeTest('the newest metric of each requested sandbox is found', async ({ metrics }) => {
    const newest = sample({ at: time + 5 })
    const other = sample({ sandboxID: 'itwo' })
    await metrics.append([sample(), newest, other, sample({ sandboxID: 'ithree' })])
    const found = await metrics.latest(['ione', 'itwo', 'inone'])
    assert.deepEqual(
      found.sort((a, b) => (a.sandboxID < b.sandboxID ? -1 : 1)),
      [newest, other],
    )
    assert.deepEqual(await metrics.latest([]), [])
  })

  storeTest(
    'more metrics than fit into one statement are written, and old ones removed',
    async ({ metrics }) => {
      await metrics.append(Array.from({ length: 1201 }, (_, step) => sample({ at: time + step })))
      assert.equal((await metrics.range('ione', 0, time + 9999)).length, 1201)
      await metrics.prune(time + 1200)
      assert.deepEqual(await metrics.range('ione', 0, time + 9999), [sample({ at: time + 1200 })])
    },
  )
}
