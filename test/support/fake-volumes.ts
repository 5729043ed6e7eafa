/** Volume disks that are plain folders, for tests of the domain and the API. */
import { mkdir, mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import type { VolumeDisks, VolumeFiles } from '../../src/core/volume/volume-files.ts'
import { AppError } from '../../src/lib/app-error.ts'
import { EntryOwners } from '../../src/volumes/entry.ts'
import { openFolder } from '../../src/volumes/path-walk.ts'
import { VolumeContent } from '../../src/volumes/volume-content.ts'

export class FakeVolumeDisks implements VolumeDisks {
  readonly disks: Set<string> = new Set()
  /** How many disks are held at this moment. */
  acquiredCount = 0
  /** Knobs: called in the middle of each. */
  beforeCreated: (volumeID: string) => Promise<void> = async () => {}
  beforeRemoved: (volumeID: string) => Promise<void> = async () => {}
  beforeReleased: (volumeID: string) => Promise<void> = async () => {}
  beforeUsed: (volumeID: string) => Promise<void> = async () => {}
  #root: Promise<string> | undefined

  async create(volumeID: string): Promise<void> {
    this.disks.add(volumeID)
    await this.beforeCreated(volumeID)
  }

  async remove(volumeID: string): Promise<void> {
    await this.beforeRemoved(volumeID)
    this.disks.delete(volumeID)
  }

  async list(): Promise<string[]> {
    return [...this.disks]
  }

  async acquire(volumeID: string) {
    this.#assertThere(volumeID)
    this.acquiredCount++
    const disk = { device: `/dev/${volumeID}`, options: 'rw', folder: 'files' }
    const release = async () => {
      await this.beforeReleased(volumeID)
      this.acquiredCount--
    }
    return { disk, release }
  }

  /** What the volume holds, for tests to look at from outside. */
  async folder(volumeID: string): Promise<string> {
    this.#root ??= mkdtemp(join(tmpdir(), 'warren-volumes-'))
    const folder = join(await this.#root, volumeID)
    for (const name of ['files', 'incoming']) await mkdir(join(folder, name), { recursive: true })
    return join(folder, 'files')
  }

  async useFiles<T>(volumeID: string, work: (files: VolumeFiles) => Promise<T>): Promise<T> {
    await this.beforeUsed(volumeID)
    this.#assertThere(volumeID)
    const files = await openFolder(await this.folder(volumeID))
    const incoming = await openFolder(join(await this.folder(volumeID), '../incoming'))
    try {
      return await work(new VolumeContent({ files, incoming }, new EntryOwners(0)))
    } finally {
      await files.close()
      await incoming.close()
    }
  }

  async promisedBytes(): Promise<number> {
    return 0
  }

  async closeIdle(): Promise<void> {}

  async close(): Promise<void> {
    if (this.#root) await rm(await this.#root, { recursive: true, force: true })
  }

  #assertThere(volumeID: string): void {
    if (!this.disks.has(volumeID)) throw new AppError('unavailable', 'its disk is missing')
  }
}
