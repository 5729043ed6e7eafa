/** The watching half of filesystem.Filesystem: as a stream, and as a list that clients poll. */
import { statfsSync, statSync } from 'node:fs'
import { join } from 'node:path'
import type { MessageInitShape } from '@bufbuild/protobuf'
import type {
  CreateWatcherRequest,
  FilesystemEventSchema,
  WatchDirRequest,
  WatchDirResponseSchema,
} from '../../contract/rpc/filesystem_pb.ts'
import { AppError } from '../../lib/app-error.ts'
import { randomHex } from '../../lib/ids.ts'
import { fromSystemError } from '../errors.ts'
import { deadlineExceeded, type RpcCall } from '../rpc/rpc-call.ts'
import type { Change } from './change-queue.ts'
import type { EntryInit } from './entry.ts'
import { Inotify } from './inotify.ts'
import { TreeWatcher } from './tree-watcher.ts'

type Request = WatchDirRequest | CreateWatcherRequest
type EventInit = MessageInitShape<typeof FilesystemEventSchema>
type ResponseInit = MessageInitShape<typeof WatchDirResponseSchema>

/** Throws if nothing exists at the path. */
type Describe = (path: string) => EntryInit
type FilesystemTypeOf = (path: string) => number

const maxWatchers = 64
/** NFS, three versions of SMB, FUSE, Ceph and AFS: changes made elsewhere are not reported here. */
const networkTypes = new Set([
  0x6969, 0xff534d42, 0x517b, 0xfe534d42, 0x65735546, 0x00c36400, 0x5346414f, 0x6b414653,
])

export class Watchers {
  #inotify: Inotify
  #typeOf: FilesystemTypeOf
  #polled = new Map<string, { watcher: TreeWatcher; includeEntry: boolean }>()
  #open = 0

  constructor(addonPath: string, typeOf: FilesystemTypeOf = (path) => statfsSync(path).type) {
    this.#inotify = new Inotify(addonPath)
    this.#typeOf = typeOf
  }

  async *stream(
    path: string,
    request: Request,
    call: RpcCall,
    describe: Describe,
  ): AsyncGenerator<ResponseInit> {
    const watcher = await this.#watch(path, request)
    // Not left to `finally`: if the caller has disconnected, a write that waits for it may never return.
    const leave = () => this.#unwatch(watcher)
    call.signal.addEventListener('abort', leave)
    if (call.signal.aborted) leave()
    const silenceMs = call.keepaliveMs
    try {
      yield { event: { case: 'start', value: {} } }
      for (;;) {
        const changes = await watcher.changes.next(silenceMs)
        if (changes === undefined) break
        if (changes === 'silence') yield { event: { case: 'keepalive', value: {} } }
        else {
          for (const change of changes) {
            const value = present(watcher, change, request.includeEntry, describe)
            yield { event: { case: 'filesystem', value } }
          }
        }
      }
    } finally {
      call.signal.removeEventListener('abort', leave)
      leave()
    }
    if (call.isOutOfTime) throw deadlineExceeded()
  }

  async create(path: string, request: Request): Promise<string> {
    const watcher = await this.#watch(path, request)
    const id = `w${randomHex(12)}`
    this.#polled.set(id, { watcher, includeEntry: request.includeEntry })
    return id
  }

  drain(id: string, describe: Describe): EventInit[] {
    const { watcher, includeEntry } = this.#find(id)
    return watcher.changes.drain().map((change) => present(watcher, change, includeEntry, describe))
  }

  remove(id: string): void {
    const { watcher } = this.#find(id)
    this.#polled.delete(id)
    this.#unwatch(watcher)
  }

  /** Ends all polled watchers; streams end with their connections. */
  close(): void {
    for (const id of [...this.#polled.keys()]) this.remove(id)
  }

  #find(id: string) {
    const found = this.#polled.get(id)
    if (!found) throw new AppError('not_found', `watcher with id ${id} not found`)
    return found
  }

  async #watch(path: string, request: Request): Promise<TreeWatcher> {
    this.#check(path, request.allowNetworkMounts)
    if (this.#open >= maxWatchers) {
      throw new AppError('limit_reached', `there are ${maxWatchers} watchers already: remove some first`)
    }
    this.#open++
    try {
      return await TreeWatcher.open(this.#inotify, path, request.recursive)
    } catch (error) {
      this.#open--
      throw error
    }
  }

  #closed = new WeakSet<TreeWatcher>()

  #unwatch(watcher: TreeWatcher): void {
    if (this.#closed.has(watcher)) return
    this.#closed.add(watcher)
    this.#open--
    watcher.close()
  }

  #check(path: string, allowNetworkMounts: boolean): void {
    try {
      if (!statSync(path).isDirectory()) {
        throw new AppError('invalid_argument', `path is not a directory: ${path}`)
      }
      if (!allowNetworkMounts && networkTypes.has(this.#typeOf(path))) {
        throw new AppError('invalid_argument', `cannot watch path on network filesystem: ${path}`)
      }
    } catch (error) {
      throw fromSystemError(error, path)
    }
  }
}

function present(watcher: TreeWatcher, change: Change, includeEntry: boolean, describe: Describe): EventInit {
  if (!includeEntry) return change
  try {
    return { ...change, entry: describe(join(watcher.root, change.name)) }
  } catch {
    return change
  }
}
