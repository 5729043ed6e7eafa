/** filesystem.Filesystem of the wire. The agent acts as root; what it makes belongs to the asking user. */
import { promises as files, lstatSync, statSync } from 'node:fs'
import { dirname } from 'node:path'
import type { HandlerContext, ServiceImpl } from '@connectrpc/connect'
import type { Filesystem } from '../../contract/rpc/filesystem_pb.ts'
import { AppError } from '../../lib/app-error.ts'
import type { Account } from '../accounts.ts'
import { fromSystemError } from '../errors.ts'
import type { Identity } from '../identity.ts'
import { resolvePath } from '../paths.ts'
import { describeEntry, type EntryInit, type EntryPath, rememberNames } from './entry.ts'
import { listDirectory } from './list-directory.ts'
import { makeFolders } from './make-folders.ts'
import type { Metadata } from './metadata.ts'
import { movePath } from './move.ts'
import type { Watchers } from './watchers.ts'

type Routes = Partial<ServiceImpl<typeof Filesystem>>

export class FilesystemService {
  #identity: Identity
  #metadata: Metadata
  #watchers: Watchers

  constructor(identity: Identity, metadata: Metadata, watchers: Watchers) {
    this.#identity = identity
    this.#metadata = metadata
    this.#watchers = watchers
  }

  routes(): Routes {
    return { ...this.#entryRoutes(), ...this.#watchRoutes() }
  }

  #entryRoutes(): Routes {
    return {
      stat: (request, context) => {
        const { path } = this.#resolve(request.path, context)
        return { entry: this.#describe(path, context) }
      },
      listDir: async (request, context) => {
        const { path } = this.#resolve(request.path, context)
        const describe = this.#describer(context)
        return { entries: await listDirectory(path, request.depth || 1, describe, context.signal) }
      },
      makeDir: (request, context) => {
        const { path, account } = this.#resolve(request.path, context)
        this.#makeDir(path, account)
        return { entry: this.#describe(path, context) }
      },
      move: async (request, context) => {
        const { path: source, account } = this.#resolve(request.source, context)
        const { path: destination } = this.#resolve(request.destination, context)
        inWords(source, () => lstatSync(source))
        inWords(destination, () => makeFolders(dirname(destination), account))
        await movePath(source, destination, this.#metadata).catch(wordsFor(destination))
        return { entry: this.#describe(destination, context) }
      },
      remove: async (request, context) => {
        const { path } = this.#resolve(request.path, context)
        if (path === '/') throw new AppError('invalid_argument', 'the root directory cannot be removed')
        await files.rm(path, { recursive: true, force: true }).catch(wordsFor(path))
        return {}
      },
    }
  }

  #watchRoutes(): Routes {
    return {
      watchDir: (request, context) => {
        const { path } = this.#resolve(request.path, context)
        const describe = (entry: string) => this.#describer(context)(entry)
        return this.#watchers.stream(path, request, context, describe)
      },
      createWatcher: async (request, context) => {
        const { path } = this.#resolve(request.path, context)
        return { watcherId: await this.#watchers.create(path, request) }
      },
      getWatcherEvents: (request, context) => ({
        events: this.#watchers.drain(request.watcherId, this.#describer(context)),
      }),
      removeWatcher: (request) => {
        this.#watchers.remove(request.watcherId)
        return {}
      },
    }
  }

  #makeDir(path: string, account: Account): void {
    inWords(path, () => {
      // A link that leads nowhere is something too, and no directory.
      const before = statSync(path, { throwIfNoEntry: false }) ?? lstatSync(path, { throwIfNoEntry: false })
      if (before?.isDirectory()) throw new AppError('already_exists', `directory already exists: ${path}`)
      if (before)
        throw new AppError('invalid_argument', `path already exists but it is not a directory: ${path}`)
      makeFolders(path, account)
    })
  }

  #resolve(path: string, context: HandlerContext): { path: string; account: Account } {
    const account = this.#identity.accountOf(context.requestHeader.get('authorization'))
    return { path: resolvePath(path, account, this.#identity.defaultWorkdir), account }
  }

  #describe(path: string, context: HandlerContext): EntryInit {
    return inWords(path, () => this.#describer(context)(path))
  }

  #describer(context: HandlerContext): (path: EntryPath) => EntryInit {
    const accounts = rememberNames(this.#identity.accounts)
    // An old client with a strict parser must not see fields it does not know.
    const legacyClient = (context.requestHeader.get('user-agent') ?? '').includes('connect-python')
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
