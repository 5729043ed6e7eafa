/**
 * Removes objects that no row needs. One Warren of a cluster does it at a time; what is young stays, since its row may
 * not be written yet.
 */
import type { Clock } from '../../lib/clock.ts'
import type { Log } from '../../lib/log.ts'
import type { LeaseStore } from '../event-stores.ts'
import type { ObjectStore } from '../object-store.ts'
import type { ArchiveStore } from './archive-store.ts'
import {
  buildKey,
  buildPrefix,
  filesPrefix,
  layerKey,
  layerPrefix,
  sandboxKey,
  sandboxPrefix,
} from './keys.ts'

export type ArchiveSweeperParts = {
  objects: ObjectStore
  rows: ArchiveStore
  leases: LeaseStore
  clock: Clock
  log: Log
}

const lease = 'sweep the object store'
const leaseMs = 30 * 60_000
const graceMs = 3_600_000
/** Uploaded files that no build asked for since then; who asks for them gets a copy on its own disk. */
const keepFilesMs = 30 * 24 * 3_600_000
const unfinishedMs = 24 * 3_600_000

export class ArchiveSweeper {
  readonly #parts: ArchiveSweeperParts

  constructor(parts: ArchiveSweeperParts) {
    this.#parts = parts
  }

  async run(): Promise<void> {
    const { objects, leases, clock, log } = this.#parts
    if (!(await leases.take(lease, leaseMs))) return
    try {
      const now = clock.now()
      const old = await this.#listOlder([sandboxPrefix, buildPrefix, layerPrefix], now - graceMs)
      const oldFiles = await this.#listOlder([filesPrefix], now - keepFilesMs)
      // Read after the objects were listed: what was put there since then is not among them.
      const needed = await this.#neededKeys()
      const unneeded = [...old.filter((key) => !needed.has(key)), ...oldFiles]
      for (const key of unneeded) await objects.remove(key)
      await objects.removeUnfinished(now - unfinishedMs)
      if (unneeded.length > 0)
        log.info({ removed: unneeded.length }, 'Objects that no row needs were removed.')
    } finally {
      await leases.release(lease)
    }
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
