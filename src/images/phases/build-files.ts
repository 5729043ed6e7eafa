/** Uploaded files on disk, one archive per team and hash. Nobody checks the hash, so an archive is for its team alone. */
import { createWriteStream, rmSync, type Stats, statSync, utimesSync } from 'node:fs'
import { mkdir, open, readdir, rename, rm, stat, utimes } from 'node:fs/promises'
import { join } from 'node:path'
import { Readable } from 'node:stream'
import { pipeline } from 'node:stream/promises'
import type { BuildFiles, UploadedFiles } from '../../core/template/builder.ts'
import { AppError } from '../../lib/app-error.ts'
import { systemClock } from '../../lib/clock.ts'
import { randomHex } from '../../lib/ids.ts'

const hashForm = /^[0-9a-f]{64}$/

/** In whole milliseconds, never earlier than the time that `has` or `write` set: the file system keeps fractions. */
const usedAtOf = ({ mtimeMs }: Stats): number => Math.ceil(mtimeMs)

export class StoredBuildFiles implements BuildFiles {
  readonly #folder: string

  constructor(folder: string) {
    this.#folder = folder
  }

  /** Removes, at the start, the uploads that a crash cut off. */
  async sweep(): Promise<void> {
    for (const { path, name } of await this.#entries()) {
      if (!hashForm.test(name)) await rm(path, { force: true })
    }
  }

  async has(teamID: string, hash: string): Promise<boolean> {
    const seconds = systemClock.now() / 1000
    try {
      // A client that is told of it will not send it again: it must outlast the build. Not to be overtaken by
      // `remove`, so in one go.
      utimesSync(this.#path(teamID, hash), seconds, seconds)
      return true
    } catch (error) {
      if (error instanceof AppError) throw error
      return false
    }
  }

  async write(
    teamID: string,
    hash: string,
    body: AsyncIterable<Uint8Array>,
    maxBytes: number,
  ): Promise<void> {
    const path = this.#path(teamID, hash)
    const beside = `${path}.${randomHex(8)}.partial`
    await mkdir(join(this.#folder, teamID), { recursive: true, mode: 0o700 })
    let size = 0
    const counted = async function* () {
      for await (const chunk of body) {
        size += chunk.length
        if (size > maxBytes) {
          const most = Math.floor(maxBytes / (1024 * 1024))
          throw new AppError('payload_too_large', `The files of a COPY may take ${most} MiB at most`)
        }
        yield chunk
      }
    }
    try {
      await pipeline(
        Readable.from(counted(), { objectMode: false }),
        createWriteStream(beside, { mode: 0o600 }),
      )
      // The kernel's own time lags behind the clock that builds are dated by.
      const seconds = systemClock.now() / 1000
      await utimes(beside, seconds, seconds)
      await rename(beside, path)
    } catch (error) {
      if ((error as NodeJS.ErrnoException).code !== 'ENOSPC') throw error
      throw new AppError(
        'no_space',
        'There is no room on the disk for these files; ask the operator for more',
        {
          cause: error,
        },
      )
    } finally {
      await rm(beside, { force: true })
    }
  }

  async open(teamID: string, hash: string): Promise<Readable | undefined> {
    const file = await open(this.#path(teamID, hash)).catch(() => undefined)
    return file?.createReadStream()
  }

  async list(): Promise<UploadedFiles[]> {
    const found: UploadedFiles[] = []
    for (const { teamID, name: hash, path } of await this.#entries()) {
      const file = hashForm.test(hash) ? await stat(path).catch(() => undefined) : undefined
      if (file) found.push({ teamID, hash, bytes: file.blocks * 512, usedAt: usedAtOf(file) })
    }
    return found
  }

  remove({ teamID, hash, usedAt }: UploadedFiles): boolean {
    const path = this.#path(teamID, hash)
    const found = statSync(path, { throwIfNoEntry: false })
    if (!found || usedAtOf(found) !== usedAt) return false
    rmSync(path)
    return true
  }

  async #entries(): Promise<{ teamID: string; name: string; path: string }[]> {
    const teams = await readdir(this.#folder).catch(() => [])
    const names = teams.map(async (teamID) => {
      const found = await readdir(join(this.#folder, teamID))
      return found.map((name) => ({ teamID, name, path: join(this.#folder, teamID, name) }))
    })
    return (await Promise.all(names)).flat()
  }

  #path(teamID: string, hash: string): string {
    if (!hashForm.test(hash)) throw new AppError('invalid_argument', 'Invalid files hash')
    if (!/^[\w-]+$/.test(teamID)) throw new AppError('internal', 'A team id that is no plain name')
    return join(this.#folder, teamID, hash)
  }
}
