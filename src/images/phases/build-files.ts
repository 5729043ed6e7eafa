/** Uploaded files on disk, one archive per team and hash. What a client sends is believed for its team alone. */
import { createWriteStream } from 'node:fs'
import { mkdir, open, readdir, rename, rm, stat, utimes } from 'node:fs/promises'
import { join } from 'node:path'
import { Readable } from 'node:stream'
import { pipeline } from 'node:stream/promises'
import type { BuildFiles } from '../../core/template/builder.ts'
import { AppError } from '../../lib/app-error.ts'
import { systemClock } from '../../lib/clock.ts'
import { randomHex } from '../../lib/ids.ts'

export class StoredBuildFiles implements BuildFiles {
  readonly #folder: string

  constructor(folder: string) {
    this.#folder = folder
  }

  async has(teamID: string, hash: string): Promise<boolean> {
    const seconds = systemClock.now() / 1000
    // A client that is told of it will not send it again: it must outlast the build.
    return utimes(this.#path(teamID, hash), seconds, seconds).then(
      () => true,
      () => false,
    )
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
      await rename(beside, path)
    } finally {
      await rm(beside, { force: true })
    }
  }

  async open(teamID: string, hash: string): Promise<Readable | undefined> {
    const file = await open(this.#path(teamID, hash)).catch(() => undefined)
    return file?.createReadStream()
  }

  /** Removes what was last written or asked for before this time, and what a crash left. */
  async prune(before: number): Promise<void> {
    for (const team of await readdir(this.#folder).catch(() => [])) {
      for (const name of await readdir(join(this.#folder, team))) {
        const path = join(this.#folder, team, name)
        const found = await stat(path).catch(() => undefined)
        if (found && found.mtimeMs < before) await rm(path, { force: true })
      }
    }
  }

  #path(teamID: string, hash: string): string {
    if (!/^[0-9a-f]{64}$/.test(hash)) throw new AppError('invalid_argument', 'Invalid files hash')
    if (!/^[\w-]+$/.test(teamID)) throw new AppError('internal', 'A team id that is no plain name')
    return join(this.#folder, teamID, hash)
  }
}
