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
import { describeEntry, type EntryInit } from './entry.ts'
import { listDirectory } from './list-directory.ts'
import { makeFolders } from './make-folders.ts'
import { Metadata } from './metadata.ts'
import { movePath } from './move.ts'
import type { SyscallProcess } from './syscall-process.ts'
import { type DescribeAll, type FilesystemTypeOf, Watchers } from './watchers.ts'

export class FilesystemService {
  #identity: Identity
  #metadata: Metadata
  #watchers: Watchers

  constructor(identity: Identity, syscalls: SyscallProcess, typeOf?: FilesystemTypeOf) {
    this.#identity = identity
    this.#metadata = new Metadata(syscalls)
    this.#watchers = new Watchers(syscalls, typeOf)
  }

  routes(): Partial<ServiceImpl<typeof Filesystem>> {
    return {
      stat: async (request, context) => {
        const { path } = this.#resolve(request.path, context)
        return { entry: await this.#describe(path, context) }
      },
      listDir: async (request, context) => {
        const { path } = this.#resolve(request.path, context)
        const describe = (entry: string) => describeEntry(entry, this.#identity.accounts, legacy(context))
        const entries = await listDirectory(path, request.depth || 1, describe, context.signal)
        await this.#addMetadata(entries, context)
        return { entries }
      },
      makeDir: async (request, context) => {
        const { path, account } = this.#resolve(request.path, context)
        this.#makeDir(path, account)
        return { entry: await this.#describe(path, context) }
      },
      move: async (request, context) => {
        const { path: source, account } = this.#resolve(request.source, context)
        const { path: destination } = this.#resolve(request.destination, context)
        inWords(source, () => lstatSync(source))
        inWords(destination, () => makeFolders(dirname(destination), account))
        await movePath(source, destination, this.#metadata).catch(wordsFor(destination))
        return { entry: await this.#describe(destination, context) }
      },
      remove: async (request, context) => {
        const { path } = this.#resolve(request.path, context)
        if (path === '/') throw new AppError('invalid_argument', 'the root directory cannot be removed')
        await files.rm(path, { recursive: true, force: true }).catch(wordsFor(path))
        return {}
      },
      watchDir: (request, context) => {
        const { path } = this.#resolve(request.path, context)
        return this.#watchers.stream(path, request, context, this.#describeAll(context))
      },
      createWatcher: async (request, context) => {
        const { path } = this.#resolve(request.path, context)
        return { watcherId: await this.#watchers.create(path, request) }
      },
      getWatcherEvents: async (request, context) => ({
        events: await this.#watchers.drain(request.watcherId, this.#describeAll(context)),
      }),
      removeWatcher: (request) => {
        this.#watchers.remove(request.watcherId)
        return {}
      },
    }
  }

  #makeDir(path: string, account: Account): void {
    inWords(path, () => {
      const before = statSync(path, { throwIfNoEntry: false })
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

  async #describe(path: string, context: HandlerContext): Promise<EntryInit> {
    const entry = inWords(path, () => describeEntry(path, this.#identity.accounts, legacy(context)))
    await this.#addMetadata([entry], context)
    return entry
  }

  #describeAll(context: HandlerContext): DescribeAll {
    return async (paths) => {
      const entries = new Map<string, EntryInit>()
      for (const path of paths) {
        try {
          entries.set(path, describeEntry(path, this.#identity.accounts, legacy(context)))
        } catch {}
      }
      await this.#addMetadata([...entries.values()], context)
      return entries
    }
  }

  /** A sandbox that can start no process for it still tells everything else. */
  async #addMetadata(entries: EntryInit[], context: HandlerContext): Promise<void> {
    if (legacy(context).legacyClient || entries.length === 0) return
    const paths = entries.map((entry) => entry.path!)
    const all = await this.#metadata.read(paths).catch(() => [])
    for (const [i, metadata] of all.entries()) if (metadata) entries[i]!.metadata = metadata
  }
}

/** An old client with a strict parser must not see fields it does not know. */
function legacy(context: HandlerContext): { legacyClient: boolean } {
  return { legacyClient: (context.requestHeader.get('user-agent') ?? '').includes('connect-python') }
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
