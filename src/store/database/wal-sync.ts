/**
 * Syncs commits to the disk without blocking the event loop. SQLite writes a commit to its write-ahead log
 * and continues; its caller waits here until the log is synced. One sync serves all commits made before it
 * began.
 */
import { close, fdatasync, openSync } from 'node:fs'
import { promisify } from 'node:util'

export type SyncLog = () => Promise<void>

export class WalSync {
  readonly #syncLog: SyncLog
  /** Commits are counted: the last one made, and the last one known to be on disk. */
  #made = 0
  #synced = 0
  #running: Promise<void> | undefined
  #failure: Error | undefined

  constructor(syncLog: SyncLog) {
    this.#syncLog = syncLog
  }

  countCommit(): void {
    this.#made++
  }

  /**
   * After a failed sync, the kernel may have dropped data that it could not write, and a commit after the gap
   * would be lost too. So nothing may be answered until the database is opened again.
   */
  throwIfFailed(): void {
    if (this.#failure) throw this.#failure
  }

  /** Resolves once every commit made so far is on disk. */
  async untilSynced(): Promise<void> {
    const wanted = this.#made
    while (this.#synced < wanted) {
      this.throwIfFailed()
      this.#running ??= this.#sync().finally(() => {
        this.#running = undefined
      })
      await this.#running
    }
    this.throwIfFailed()
  }

  async #sync(): Promise<void> {
    const upTo = this.#made
    try {
      await this.#syncLog()
      this.#synced = upTo
    } catch (error) {
      this.#failure = error as Error
    }
  }
}

const syncData = promisify(fdatasync)
const closeFile = promisify(close)

/**
 * The log of a database file, which SQLite creates with the first commit and keeps until it is closed.
 * SQLite's locks are on the other two files, so closing our descriptor releases none.
 */
export function logOf(databaseFile: string): { sync: SyncLog; close(): void } {
  let descriptor: number | undefined
  return {
    async sync() {
      descriptor ??= openSync(`${databaseFile}-wal`, 'r')
      await syncData(descriptor)
    },
    close() {
      if (descriptor !== undefined) void closeFile(descriptor).catch(() => {})
      descriptor = undefined
    },
  }
}
