import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { parseGpuUses, sumUses } from './gpu-use.ts'

const mib = 2 ** 20

describe('the use of GPUs', () => {
  const uses = parseGpuUses(
    'GPU-1, 40, 1000, 143771\nGPU-2, 20, 24, 143771\nGPU-3, [N/A], [N/A], 20\n\nnoise\n',
  )

  it('is known only for GPUs with complete figures', () => {
    assert.deepEqual([...uses.keys()], ['GPU-1', 'GPU-2'])
    assert.deepEqual(uses.get('GPU-1'), {
      busyPct: 40,
      memoryUsedBytes: 1000 * mib,
      memoryTotalBytes: 143771 * mib,
    })
  })

  it('is summed over the GPUs of a sandbox, and unknown if the use of one of them is unknown', () => {
    assert.deepEqual(sumUses(uses, ['GPU-1', 'GPU-2']), {
      busyPct: 30,
      memoryUsedBytes: 1024 * mib,
      memoryTotalBytes: 2 * 143771 * mib,
    })
    assert.equal(sumUses(uses, ['GPU-1', 'GPU-3']), undefined)
    assert.equal(sumUses(uses, []), undefined)
  })
})
