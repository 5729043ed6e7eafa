/**
 * Uploaded files on disk, one archive per team and hash. Nobody checks the hash, so only its own team may use
 * an archive.
 */
import { rmSync, type Stats, statSync, utimesSync } from 'node:fs'
import { mkdir, open, readdir, rename, rm, stat, utimes } from 'node:fs/promises'
import { join } from 'node:path'
import type { Readable } from 'node:stream'
import { listIsFull, listLimits } from '../../core/team/list-limits.ts'
import type { BuildFiles, UploadedFiles } from '../../core/template/builder.ts'
import { AppError } from '../../lib/app-error.ts'
import { systemClock } from '../../lib/clock.ts'
import { randomHex } from '../../lib/ids.ts'
import { ifPresent, isMissing } from '../../lib/if-present.ts'
import { tooLarge } from './upload-check.ts'
import { UploadChecks } from './upload-checks.ts'

const hashForm = /^[0-9a-f]{64}$/
/** Maximum number of files, folders and links in the archive of one COPY. */
const maxEntries = 1_000_000
/** A build may still be about to use an archive for so long. */
const inUseMs = 3_600_000

/**
 * In whole milliseconds, never earlier than the time that `has` or `write` set: the file system stores
 * fractions.
 */
const usedAtOf = ({ mtimeMs }: Stats): number => Math.ceil(mtimeMs)

export class LocalBuildFiles implements BuildFiles {
  readonly #folder: string
  readonly #maxFiles: number
  readonly #checks = new UploadChecks()

  constructor(folder: string, maxFiles: number = listLimits.uploadsPerTeam) {
    this.#folder = folder
    this.#maxFiles = maxFiles
  }

  /** Removes, at the start, uploads that a crash cut off. */
  async sweep(): Promise<void> {
    for (const { path, name } of await this.#entries()) {
      if (!hashForm.test(name)) await rm(path, { force: true })
    }
  }

  async has(teamID: string, hash: string): Promise<boolean> {
    const seconds = systemClock.now() / 1000
    try {
      // A client that is told of the files will not send them again, so they must outlast its build. One
      // synchronous call, so that `remove` cannot come in between.
      utimesSync(this.#path(teamID, hash), seconds, seconds)
      return true
    } catch (error) {
      if (isMissing(error)) return false
      throw error
    }
  }

  async write(
    teamID: string,
    hash: string,
    body: AsyncIterable<Uint8Array>,
    maxBytes: number,
    signal?: AbortSignal,
  ): Promise<void> {
    const path = this.#path(teamID, hash)
    const beside = `${path}.${randomHex(8)}.partial`
    await mkdir(join(this.#folder, teamID), { recursive: true, mode: 0o700 })
    signal?.throwIfAborted()
    await this.#makeWay(teamID)
    try {
      await this.#receive(beside, body, { teamID, maxBytes, signal })
      // The kernel's own time lags behind the clock that dates builds.
      const seconds = systemClock.now() / 1000
      await utimes(beside, seconds, seconds)
      await rename(beside, path)
    } catch (error) {
      if ((error as NodeJS.ErrnoException).code !== 'ENOSPC') throw error
      throw new AppError(
        'no_space',
        'The disk of the server has no space for these files. Ask the operator to free some.',
        {
          cause: error,
        },
      )
    } finally {
      await rm(beside, { force: true })
    }
  }

  /** Removes the archive that was used longest ago if the team has as many as it may have. One in use makes no way. */
  async #makeWay(teamID: string): Promise<void> {
    const names = await readdir(join(this.#folder, teamID))
    if (names.length < this.#maxFiles) return
    const uploads = (await this.list()).filter((each) => each.teamID === teamID)
    const oldest = uploads.sort((one, other) => one.usedAt - other.usedAt)[0]
    const isUnused = oldest !== undefined && oldest.usedAt < systemClock.now() - inUseMs
    if (isUnused && this.remove(oldest)) return
    throw listIsFull(
      `A team can have at most ${this.#maxFiles} uploads that were used in the last hour: try again later`,
    )
  }

  /** Writes the body to a new file while a worker checks it. Resolves when it is complete and acceptable. */
  async #receive(
    path: string,
    body: AsyncIterable<Uint8Array>,
    { teamID, maxBytes, signal }: { teamID: string; maxBytes: number; signal: AbortSignal | undefined },
  ): Promise<void> {
    const file = await open(path, 'wx', 0o600)
    const check = this.#checks.open(teamID, path, { maxBytes, maxEntries })
    const giveUp = () => check.close()
    signal?.addEventListener('abort', giveUp)
    try {
      let size = 0
      for await (const chunk of body) {
        size += chunk.length
        if (size > maxBytes) throw tooLarge(maxBytes)
        await file.writeFile(chunk)
        check.grown(size)
      }
      await check.finish()
    } finally {
      signal?.removeEventListener('abort', giveUp)
      check.close()
      await file.close()
    }
  }

  async open(teamID: string, hash: string): Promise<Readable | undefined> {
    const file = await ifPresent(open(this.#path(teamID, hash)))
    return file?.createReadStream()
  }

  async list(): Promise<UploadedFiles[]> {
    const found: UploadedFiles[] = []
    for (const { teamID, name: hash, path } of await this.#entries()) {
      const file = hashForm.test(hash) ? await ifPresent(stat(path)) : undefined
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
    const teams = (await ifPresent(readdir(this.#folder))) ?? []
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
