/**
 * Folders as a sandbox's own users see them. Roots, layers and disks carry owners from one range that all
 * sandboxes share; in the mount namespace of its slot each sandbox gets them mapped to a range of its own, so
 * that the kernel's limits per user are its own too.
 */
import { Worker } from 'node:worker_threads'
import { AppError } from '../../lib/app-error.ts'
import { atUsualPriority } from '../../lib/priority.ts'
import { siblingModule } from '../../lib/sibling-module.ts'

export type IdmapRequest = {
  number: number
  /** Files of namespaces; the user namespace says which owner becomes which. */
  mountNamespace: string
  userNamespace: string
  folders: readonly string[]
}

export type IdmapReply = {
  number: number
  failure: { code: string | undefined; message: string } | undefined
}

type Waiting = { resolve: () => void; reject: (error: Error) => void }

export class IdmappedMounts {
  readonly #waiting = new Map<number, Waiting>()
  #worker: Worker | undefined
  #last = 0

  /** Puts a mapped clone over each of the folders, in that mount namespace only. */
  cover(request: Omit<IdmapRequest, 'number'>): Promise<void> {
    const number = ++this.#last
    return new Promise((resolve, reject) => {
      this.#waiting.set(number, { resolve, reject })
      this.#open().postMessage({ ...request, number } satisfies IdmapRequest)
    })
  }

  async close(): Promise<void> {
    await this.#worker?.terminate()
  }

  #open(): Worker {
    if (this.#worker) return this.#worker
    const worker = atUsualPriority(
      () => new Worker(siblingModule('idmap-worker', import.meta.url), { trackUnmanagedFds: false }),
    )
    this.#worker = worker
    worker.unref()
    worker.on('message', ({ number, failure }: IdmapReply) => {
      const waiting = this.#waiting.get(number)
      this.#waiting.delete(number)
      if (failure) waiting?.reject(Object.assign(new Error(failure.message), { code: failure.code }))
      else waiting?.resolve()
    })
    const end = (cause?: unknown) => {
      if (this.#worker === worker) this.#worker = undefined
      const error = new AppError('unavailable', 'The thread that maps the owners of files has ended.', {
        cause,
      })
      for (const waiting of this.#waiting.values()) waiting.reject(error)
      this.#waiting.clear()
    }
    worker.on('error', end)
    worker.on('exit', () => end())
    return worker
  }
}
