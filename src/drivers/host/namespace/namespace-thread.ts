/**
 * The thread that enters the namespaces of slots, to mount and configure there by system calls: a program for
 * each step would take a millisecond or more of CPU to load. Calls that may block in the kernel, such as an
 * unmount that must write back, are left to other processes, because there is one thread for all slots.
 */
import { Worker } from 'node:worker_threads'
import { AppError } from '../../../lib/app-error.ts'
import { endWorker } from '../../../lib/ending-worker.ts'
import { atUsualPriority } from '../../../lib/priority.ts'
import { siblingModule } from '../../../lib/sibling-module.ts'
import type { CoverTask } from './cover-folders.ts'
import type { ImagesTask, RootTask, SlotDiskTask } from './mount-disks.ts'
import type { MountPointsTask } from './mount-points.ts'
import type { MoveTask } from './move-mounts.ts'
import type { LinkTask, NetworkTask } from './slot-network.ts'
import type { UsersTask } from './slot-users.ts'
import type { RuntimeTask } from './start-runtime.ts'

export type NamespaceTask =
  | { cover: CoverTask }
  | { makeSlotDisk: SlotDiskTask }
  | { mountImages: ImagesTask }
  | { mountRoot: RootTask }
  | { checkMountPoints: MountPointsTask }
  | { moveMounts: MoveTask }
  | { makeNetwork: NetworkTask }
  | { narrowLinks: readonly LinkTask[] }
  /** The address of a sandbox that has ended. */
  | { forgetFlows: string }
  | { makeUsers: UsersTask }
  | { startRuntime: RuntimeTask }

export type NamespaceRequest = { number: number; task: NamespaceTask }

export type NamespaceReply = {
  number: number
  /** The pid of the started process, or opened descriptors. */
  given: readonly number[]
  failure: { code: string | undefined; message: string } | undefined
}

type Waiting = { resolve: (given: readonly number[]) => void; reject: (error: Error) => void }

export class NamespaceThread {
  readonly #waiting = new Map<number, Waiting>()
  #worker: Worker | undefined
  #last = 0

  async do(task: NamespaceTask): Promise<void> {
    await this.#ask(task)
  }

  /** Returns the pid of the runtime, which is a child of this process: the caller must wait for its end. */
  async start(task: RuntimeTask): Promise<number> {
    return (await this.#ask({ startRuntime: task }))[0]!
  }

  /** Returns descriptors of both user namespaces: the caller must close them. */
  async makeUsers(task: UsersTask): Promise<[inside: number, files: number]> {
    const [inside, files] = await this.#ask({ makeUsers: task })
    return [inside!, files!]
  }

  #ask(task: NamespaceTask): Promise<readonly number[]> {
    const number = ++this.#last
    return new Promise((resolve, reject) => {
      this.#waiting.set(number, { resolve, reject })
      this.#open().postMessage({ number, task } satisfies NamespaceRequest)
    })
  }

  async close(): Promise<void> {
    if (this.#worker) await endWorker(this.#worker)
  }

  #open(): Worker {
    if (this.#worker) return this.#worker
    const worker = atUsualPriority(
      () => new Worker(siblingModule('namespace-worker', import.meta.url), { trackUnmanagedFds: false }),
    )
    this.#worker = worker
    worker.unref()
    worker.on('message', ({ number, given, failure }: NamespaceReply) => {
      const waiting = this.#waiting.get(number)
      this.#waiting.delete(number)
      if (failure) waiting?.reject(Object.assign(new Error(failure.message), { code: failure.code }))
      else waiting?.resolve(given)
    })
    const end = (cause?: unknown) => {
      if (this.#worker === worker) this.#worker = undefined
      const error = new AppError('unavailable', 'The thread that enters the namespaces of slots has ended.', {
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
