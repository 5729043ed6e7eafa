/** Finds the sandbox of a handle, and lets one verb at a time work on it. */
import type { DriverHandle } from '../../core/ports/driver.ts'
import { AppError } from '../../lib/app-error.ts'
import { KeyedLock } from '../../lib/keyed-lock.ts'
import type { SandboxRecord } from '../host/record/records.ts'
import type { OciContext } from './context/context.ts'
import { readHandle } from './handles.ts'
import { startedPid } from './runtime/runtime-files.ts'

export class LiveSandboxes {
  readonly #context: OciContext
  readonly #locks = new KeyedLock()

  constructor(context: OciContext) {
    this.#context = context
  }

  /**
   * The sandbox's first process. Undefined if it is certain that this process has ended, or never existed.
   */
  async livePid(record: SandboxRecord): Promise<number | undefined> {
    const { layout, cgroups, exits } = this.#context
    const watched = exits.livePid(record)
    if (watched !== undefined) return watched
    const { sandboxID } = record
    const pid = await startedPid(layout.sandbox(sandboxID))
    if (pid === undefined) return undefined
    return (await cgroups.pids(layout.cgroup(sandboxID))).includes(pid) ? pid : undefined
  }

  /**
   * Runs one verb at a time for each sandbox. A caller that waits for another verb stops waiting when the
   * signal aborts.
   */
  locked<T>(sandboxID: string, signal: AbortSignal | undefined, work: () => Promise<T>): Promise<T> {
    return new Promise((resolve, reject) => {
      const abort = () => reject(signal?.reason)
      if (signal?.aborted) return abort()
      signal?.addEventListener('abort', abort, { once: true })
      const start = async () => {
        // From here on the work itself checks the signal.
        signal?.removeEventListener('abort', abort)
        signal?.throwIfAborted()
        return work()
      }
      this.#locks.run(sandboxID, start).then(resolve, reject)
    })
  }

  /** Rejects if the sandbox of this handle does not run. */
  withAlive<T>(
    handle: DriverHandle,
    work: (record: SandboxRecord) => Promise<T>,
    signal?: AbortSignal,
  ): Promise<T> {
    return this.locked(readHandle(handle).sandboxID, signal, async () => {
      const record = await this.find(handle)
      if (record && (await this.livePid(record)) !== undefined) return work(record)
      throw notThere(handle)
    })
  }

  /** Undefined if the sandbox has ended, or runs again under another handle. */
  async find(handle: DriverHandle): Promise<SandboxRecord | undefined> {
    const { sandboxID, runID } = readHandle(handle)
    const record = await this.#context.records.read(sandboxID)
    return record?.runID === runID && !record.ended ? record : undefined
  }
}

export const notThere = (handle: DriverHandle): AppError =>
  new AppError('not_found', `Sandbox ${readHandle(handle).sandboxID} is not there any more.`)
