/**
 * Uploaded files that every node of a cluster can use: on this disk, and in the object store for the others.
 */
import type { Readable } from 'node:stream'
import { filesKey } from '../../core/object-storage/keys.ts'
import type { PackStore } from '../../core/ports/object-store.ts'
import type { BuildFiles, UploadedFiles } from '../../core/template/builder.ts'
import { JoinedWork } from '../../lib/keyed-lock.ts'
import type { Log } from '../../lib/log.ts'

const fileName = 'files'

export class SharedBuildFiles implements BuildFiles {
  readonly #own: BuildFiles
  readonly #packs: PackStore
  readonly #log: Log
  readonly #fetches = new JoinedWork<boolean>()

  constructor(own: BuildFiles, packs: PackStore, log: Log) {
    this.#own = own
    this.#packs = packs
    this.#log = log
  }

  /**
   * Fetches the files from the object store at once: they must outlast the build of the client that is told
   * of them.
   */
  async has(teamID: string, hash: string): Promise<boolean> {
    return (await this.#own.has(teamID, hash)) || (await this.#fetch(teamID, hash))
  }

  async write(
    teamID: string,
    hash: string,
    body: AsyncIterable<Uint8Array>,
    maxBytes: number,
    signal?: AbortSignal,
  ): Promise<void> {
    await this.#own.write(teamID, hash, body, maxBytes, signal)
    // A client whose next request reaches another node finds the files there. If the object store is away
    // now, that client is asked to send them again.
    await this.#share(teamID, hash).catch((err) =>
      this.#log.warn(
        { teamID, hash, err },
        'Uploaded files did not reach the object store; only this node has them.',
      ),
    )
  }

  async open(teamID: string, hash: string): Promise<Readable | undefined> {
    const here = await this.#own.open(teamID, hash)
    if (here) return here
    return (await this.#fetch(teamID, hash)) ? this.#own.open(teamID, hash) : undefined
  }

  list(): Promise<UploadedFiles[]> {
    return this.#own.list()
  }

  remove(files: UploadedFiles): boolean {
    return this.#own.remove(files)
  }

  async #share(teamID: string, hash: string): Promise<void> {
    const content = await this.#own.open(teamID, hash)
    if (!content) return
    try {
      await this.#packs.store(filesKey(teamID, hash), [{ name: fileName, content }], {})
    } finally {
      content.destroy()
    }
  }

  /** False if the object store does not have them or cannot be reached. */
  #fetch(teamID: string, hash: string): Promise<boolean> {
    const key = filesKey(teamID, hash)
    return this.#fetches.run(key, async () => {
      try {
        const store = (content: AsyncIterable<Uint8Array>) =>
          this.#own.write(teamID, hash, content, Number.MAX_SAFE_INTEGER)
        return (await this.#packs.fetch(key, () => ({ open: () => store }))) !== undefined
      } catch (err) {
        this.#log.warn({ teamID, hash, err }, 'Uploaded files could not be fetched from the object store.')
        return false
      }
    })
  }
}
