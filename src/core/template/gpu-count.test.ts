import assert from 'node:assert/strict'
import { test } from 'node:test'
import { gpuCountOf } from './gpu-count.ts'

test('a template has the GPUs of its base, unless its image says that it wants none', () => {
  const base = { gpuCount: 2 }
  const countOf = (envVars: Record<string, string>, gpuCount?: number) =>
    gpuCountOf({ envVars, ...(gpuCount !== undefined && { gpuCount }) }, base)
  assert.equal(countOf({}), 2)
  for (const value of ['all', '0', 'GPU-1', '']) assert.equal(countOf({ NVIDIA_VISIBLE_DEVICES: value }), 2)
  for (const value of ['none', 'void']) assert.equal(countOf({ NVIDIA_VISIBLE_DEVICES: value }), 0)
  assert.equal(countOf({ NVIDIA_VISIBLE_DEVICES: 'void', WARREN_GPUS: '1' }), 1)
  assert.equal(countOf({ NVIDIA_VISIBLE_DEVICES: 'void' }, 1), 1)
})
