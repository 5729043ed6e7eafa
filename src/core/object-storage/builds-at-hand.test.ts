import assert from 'node:assert/strict'
import { test } from 'node:test'
import { ManualClock } from '../../lib/clock.ts'
import { BuildsAtHand } from './builds-at-hand.ts'

test('a build of another node is at hand if all its layers and its snapshot are on the disk', async () => {
  const clock = new ManualClock()
  const disk = { layers: ['a'], snapshots: ['kept'] }
  let reads = 0
  const atHand = new BuildsAtHand({
    rows: {
      async listForeignBuilds() {
        reads++
        return [
          { buildID: 'whole', layers: ['a'], snapshotName: 'kept' },
          { buildID: 'without-snapshot', layers: ['a'], snapshotName: null },
          { buildID: 'half', layers: ['a', 'b'], snapshotName: null },
          { buildID: 'elsewhere', layers: ['a'], snapshotName: 'gone' },
        ]
      },
    },
    images: { missing: (layers) => layers.filter((layer) => !disk.layers.includes(layer)) },
    snapshots: { names: async () => disk.snapshots },
    clock,
  })
  assert.deepEqual(await atHand.list(), ['whole', 'without-snapshot'])
  disk.layers.push('b')
  assert.equal((await atHand.list()).length, 2)
  assert.equal(reads, 1)
  clock.advance(10_000)
  assert.deepEqual(await atHand.list(), ['whole', 'without-snapshot', 'half'])
})
