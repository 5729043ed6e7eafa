import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { failsWith } from '../../../test/support/domain.ts'
import { type Log, silentLog } from '../../lib/log.ts'
import { DiskSpace } from './disk-space.ts'
import type { PruneOptions } from './pruner.ts'

const none = { count: 0, bytes: 0 }

/** A disk on which each cached step takes one byte; `uses` are the times of their last use. */
function openDisk(uses: number[], { free = 0, wanted = 0, rubbish = 0 }) {
  const disk = { uses: [...uses], free, rubbish }
  const runs: PruneOptions[] = []
  const said: string[] = []
  const log: Log = { ...silentLog, info: (_, text) => said.push(text), warn: (_, text) => said.push(text) }
  const space = new DiskSpace({
    freeBytes: async () => disk.free,
    minFreeBytes: wanted,
    log,
    pruner: {
      async run(options) {
        runs.push(options)
        const left = disk.uses.filter((usedAt) => usedAt >= options.before)
        const count = disk.uses.length - left.length
        const layers = { count: disk.rubbish, bytes: disk.rubbish }
        disk.free += count + disk.rubbish
        Object.assign(disk, { uses: left, rubbish: 0 })
        return { steps: { count, bytes: 0 }, savedStates: { count, bytes: count }, layers, files: none }
      },
      oldestUses: async (max) => [...disk.uses].sort((a, b) => a - b).slice(0, max),
    },
  })
  return { disk, space, runs, said }
}

const numbers = (count: number) => Array.from({ length: count }, (_, index) => count - index)

describe('free disk space', () => {
  it('is left alone while there is enough of it', async () => {
    const { space, runs, said } = openDisk(numbers(5), { free: 10, wanted: 10 })
    await space.require()
    assert.deepEqual([runs, said], [[], []])
  })

  it('is made by removing useless files first, and nothing else if that is enough', async () => {
    const { space, disk, runs } = openDisk(numbers(5), { free: 7, wanted: 10, rubbish: 3 })
    await space.require()
    assert.deepEqual([disk.uses.length, runs.length], [5, 1])
  })

  it('is made by removing the least recently used files, and no more than needed', async () => {
    const { space, disk, said } = openDisk(numbers(50), { free: 0, wanted: 15 })
    await space.require()
    assert.deepEqual([disk.free, Math.min(...disk.uses)], [20, 21])
    assert.match(said[0]!, /nearly full: removed 10 cached steps/)
  })

  it('is made once for all requests at the same time', async () => {
    const { space, disk } = openDisk(numbers(50), { free: 0, wanted: 10 })
    await Promise.all([space.require(), space.require(), space.free()])
    assert.equal(disk.free, 10)
  })

  it('makes builds fail with the reason if it cannot be freed, logged once, until there is some again', async () => {
    const mib = 1024 ** 2
    const { space, disk, said } = openDisk([], { free: 3 * mib, wanted: 10 * mib })
    await assert.rejects(space.require(), (error: Error) => {
      assert.match(error.message, /3 MiB are free, 10 MiB must stay so \(WARREN_MIN_FREE_DISK_MB\).*Delete/s)
      return failsWith('no_space')(error)
    })
    assert.equal(await space.free(), false)
    disk.free = 10 * mib
    await space.require()
    assert.deepEqual(
      said.map((text) => text.slice(0, 35)),
      ['the disk is nearly full (3 MiB free', 'the disk has enough free space agai'],
    )
  })

  it('is given up without a wait if everything that could be removed came into use meanwhile', async () => {
    const stuck = new DiskSpace({
      freeBytes: async () => 0,
      minFreeBytes: 1,
      log: silentLog,
      pruner: {
        run: async () => ({ steps: none, savedStates: none, layers: none, files: none }),
        oldestUses: async () => [5],
      },
    })
    assert.equal(await stuck.free(), false)
  })

  it('does not block builds if it cannot be measured', async () => {
    const blind = new DiskSpace({
      minFreeBytes: 1,
      log: silentLog,
      pruner: { run: async () => assert.fail(), oldestUses: async () => assert.fail() },
      freeBytes: async () => {
        throw new Error('no such disk')
      },
    })
    await blind.require()
  })
})

describe('disk space that cannot be freed because pruning fails', () => {
  it('still counts as short', async () => {
    const { silent, said } = { silent: silentLog, said: [] as string[] }
    const fails = () => Promise.reject(new Error('a record cannot be read'))
    const space = new DiskSpace({
      freeBytes: async () => 1,
      minFreeBytes: 10,
      pruner: { run: fails, oldestUses: fails },
      log: { ...silent, error: (_, text) => said.push(text) },
    })
    await assert.rejects(space.require(), failsWith('no_space'))
    assert.match(said[0]!, /could not free disk space: a record cannot be read/)
  })
})
