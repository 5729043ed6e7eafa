/**
 * Removes objects that no row needs. A lease lets one Warren of the cluster sweep at a time, unless a sweep
 * outlasts it. Young objects stay, because their rows may not be written yet. A row may begin to need an
 * object during its removal: the sweep therefore condemns the object in the database first, and `Uploader`
 * looks there before it marks a row.
 */
import type { Clock } from '../../lib/clock.ts'
import { JoinedWork } from '../../lib/keyed-lock.ts'
import type { Log } from '../../lib/log.ts'
import type { LeaseStore } from '../ports/lease-store.ts'
import type { ObjectKey, ObjectStore } from '../ports/object-store.ts'
import {
  buildKey,
  buildPrefix,
  filesPrefix,
  layerKey,
  layerPrefix,
  sandboxKey,
  sandboxPrefix,
} from './keys.ts'
import type { RemoteBytesStore } from './remote-bytes-store.ts'

type ObjectSweeperParts = {
  objects: ObjectStore
  rows: RemoteBytesStore
  leases: LeaseStore
  clock: Clock
  log: Log
}

const lease = 'sweep the object store'
const leaseMs = 30 * 60_000
const graceMs = 3_600_000
/**
 * Uploaded files stay for this long after the last build that used them. A build that uses them has its own
 * copy on disk.
 */
const keepFilesMs = 30 * 24 * 3_600_000
const unfinishedMs = 24 * 3_600_000
/**
 * A removal whose answer was lost, from this process or an earlier one of this node, has happened after this
 * time or never will.
 */
const settleMs = 30 * 60_000
/** Number of keys to condemn and remove before the sweep reads again which objects are needed. */
const keysAtOnce = 1000

export class ObjectSweeper {
  readonly #parts: ObjectSweeperParts
  readonly #sweeps = new JoinedWork<void>()

  constructor(parts: ObjectSweeperParts) {
    this.#parts = parts
  }

  /**
   * Only one sweep runs in this process at a time, because each sweep acquits every key that the node has
   * condemned.
   */
  run(): Promise<void> {
    return this.#sweeps.run('', async () => {
      const { leases } = this.#parts
      if (!(await leases.acquire(lease, leaseMs))) return
      try {
        await this.#sweep()
      } finally {
        await leases.release(lease)
      }
    })
  }

  async #sweep(): Promise<void> {
    const { objects, rows, clock, log } = this.#parts
    const now = clock.now()
    const earlier = await rows.listCondemned()
    const young = new Set(earlier.filter(({ at }) => at > now - settleMs).map(({ key }) => key))
    const old = await this.#listOlder([sandboxPrefix, buildPrefix, layerPrefix], now - graceMs)
    const needed = await this.#neededKeys()
    const unneeded = old.filter((key) => !needed.has(key))
    const due = [...new Set([...earlier.map(({ key }) => key), ...unneeded])].filter((key) => !young.has(key))
    let removed = 0
    for (let start = 0; start < due.length; start += keysAtOnce)
      removed += await this.#removeUnneeded(due.slice(start, start + keysAtOnce))
    for (const key of await this.#listOlder([filesPrefix], now - keepFilesMs)) {
      await objects.remove(key)
      removed++
    }
    await objects.removeUnfinished(now - unfinishedMs)
    if (removed > 0) log.info({ removed }, 'Objects that no row needs were removed.')
  }

  /** A removal that failed may have happened, so its object stays condemned until a later sweep. */
  async #removeUnneeded(keys: readonly ObjectKey[]): Promise<number> {
    const { objects, rows, clock } = this.#parts
    await rows.condemn(keys, clock.now())
    // Read after the keys were condemned: whoever starts to need one of them later sees that it is condemned.
    const needed = await this.#neededKeys()
    const unneeded = keys.filter((key) => !needed.has(key))
    const settled = keys.filter((key) => needed.has(key))
    try {
      for (const key of unneeded) {
        await objects.remove(key)
        settled.push(key)
      }
    } finally {
      await rows.acquit(settled)
    }
    return unneeded.length
  }

  async #listOlder(prefixes: readonly string[], than: number): Promise<string[]> {
    const keys: string[] = []
    for (const prefix of prefixes) {
      for await (const { key, modifiedAt } of this.#parts.objects.list(prefix)) {
        if (modifiedAt < than) keys.push(key)
      }
    }
    return keys
  }

  async #neededKeys(): Promise<Set<string>> {
    const { runs, layers, snapshotNames } = await this.#parts.rows.listNeeded()
    return new Set([...runs.map(sandboxKey), ...layers.map(layerKey), ...snapshotNames.map(buildKey)])
  }
}
