/** The wire's filesystem.Filesystem. The agent acts as root; its new files belong to the requesting user. */
import { promises as files, lstatSync, statSync } from 'node:fs'
import { dirname } from 'node:path'
import type { Filesystem } from '../../contract/rpc/filesystem_pb.ts'
import { AppError } from '../../lib/app-error.ts'
import type { Account } from '../accounts.ts'
import { fromSystemError } from '../errors.ts'
import type { Identity } from '../identity.ts'
import { resolvePath } from '../paths.ts'
import { sendAll } from '../rpc/answer-stream.ts'
import type { RpcMethods } from '../rpc/rpc.ts'
import type { RpcCall } from '../rpc/rpc-call.ts'
import { describeEntry, type EntryInit, type EntryPath, rememberNames } from './entry.ts'
import { listDirectory } from './list-directory.ts'
import { makeFolders } from './make-folders.ts'
import type { Metadata } from './metadata.ts'
import { movePath } from './move.ts'
import type { Watchers } from './watchers.ts'

type Methods = RpcMethods<typeof Filesystem>
type WatchMethod = 'watchDir' | 'createWatcher' | 'getWatcherEvents' | 'removeWatcher'

export class FilesystemService {
  #identity: Identity
  #metadata: Metadata
  #watchers: Watchers

  constructor(identity: Identity, metadata: Metadata, watchers: Watchers) {
    this.#identity = identity
    this.#metadata = metadata
    this.#watchers = watchers
  }

  methods(): Methods {
    return { ...this.#entryMethods(), ...this.#watchMethods() }
  }

  #entryMethods(): Omit<Methods, WatchMethod> {
    return {
      stat: (request, call) => {
        const { path } = this.#resolve(request.path, call)
        return { entry: this.#describe(path, call) }
      },
      listDir: async (request, call) => {
        const { path } = this.#resolve(request.path, call)
        const describe = this.#describer(call)
        return { entries: await listDirectory(path, request.depth || 1, describe, call.signal) }
      },
      makeDir: (request, call) => {
        const { path, account } = this.#resolve(request.path, call)
        this.#makeDir(path, account)
        return { entry: this.#describe(path, call) }
      },
      move: async (request, call) => {
        const { path: source, account } = this.#resolve(request.source, call)
        const { path: destination } = this.#resolve(request.destination, call)
        inWords(source, () => lstatSync(source))
        inWords(destination, () => makeFolders(dirname(destination), account))
        await movePath(source, destination, this.#metadata).catch(wordsFor(destination))
        return { entry: this.#describe(destination, call) }
      },
      remove: async (request, call) => {
        const { path } = this.#resolve(request.path, call)
        if (path === '/') throw new AppError('invalid_argument', 'the root directory cannot be removed')
        await files.rm(path, { recursive: true, force: true }).catch(wordsFor(path))
        return {}
      },
    }
  }

  #watchMethods(): Pick<Methods, WatchMethod> {
    return {
      watchDir: async (request, call, answer) => {
        const { path } = this.#resolve(request.path, call)
        const describe = (entry: string) => this.#describer(call)(entry)
        await sendAll(this.#watchers.stream(path, request, call, describe), answer)
        answer.end()
      },
      createWatcher: async (request, call) => {
        const { path } = this.#resolve(request.path, call)
        return { watcherId: await this.#watchers.create(path, request) }
      },
      getWatcherEvents: (request, call) => ({
        events: this.#watchers.drain(request.watcherId, this.#describer(call)),
      }),
      removeWatcher: (request) => {
        this.#watchers.remove(request.watcherId)
        return {}
      },
    }
  }

  #makeDir(path: string, account: Account): void {
    inWords(path, () => {
      // A broken link also occupies the path, and is not a directory.
      const before = statSync(path, { throwIfNoEntry: false }) ?? lstatSync(path, { throwIfNoEntry: false })
      if (before?.isDirectory()) throw new AppError('already_exists', `directory already exists: ${path}`)
      if (before)
        throw new AppError('invalid_argument', `path already exists but it is not a directory: ${path}`)
      makeFolders(path, account)
    })
  }

  #resolve(path: string, call: RpcCall): { path: string; account: Account } {
    const account = this.#identity.accountOf(call.headers.authorization)
    return { path: resolvePath(path, account, this.#identity.defaultWorkdir), account }
  }

  #describe(path: string, call: RpcCall): EntryInit {
    return inWords(path, () => this.#describer(call)(path))
  }

  #describer(call: RpcCall): (path: EntryPath) => EntryInit {
    const accounts = rememberNames(this.#identity.accounts)
    // An old client with a strict parser must not see fields it does not know.
    const legacyClient = (call.headers['user-agent'] ?? '').includes('connect-python')
    return (path) => describeEntry(path, { accounts, ...(!legacyClient && { metadata: this.#metadata }) })
  }
}

function wordsFor(path: string): (error: unknown) => never {
  return (error) => {
    throw fromSystemError(error, path)
  }
}

function inWords<T>(path: string, action: () => T): T {
  try {
    return action()
  } catch (error) {
    return wordsFor(path)(error)
  }
}
