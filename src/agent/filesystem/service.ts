/** filesystem.Filesystem of the wire. The agent acts as root; what it makes belongs to the asking user. */
import { promises as files, statSync } from 'node:fs'
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
import { movePath } from './move.ts'

export class FilesystemService {
  #identity: Identity

  constructor(identity: Identity) {
    this.#identity = identity
  }

  routes(): Partial<ServiceImpl<typeof Filesystem>> {
    return {
      stat: (request, context) => {
        const { path } = this.#resolve(request.path, context)
        return { entry: this.#describe(path, context) }
      },
      listDir: async (request, context) => {
        const { path } = this.#resolve(request.path, context)
        const describe = (entry: string) => describeEntry(entry, this.#identity.accounts, legacy(context))
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
        this.#describe(source, context)
        inWords(destination, () => makeFolders(dirname(destination), account))
        await movePath(source, destination).catch(wordsFor(destination))
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

  #describe(path: string, context: HandlerContext): EntryInit {
    return inWords(path, () => describeEntry(path, this.#identity.accounts, legacy(context)))
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
