/**
 * The reserve of disk space: a file of real blocks in the data folder. It is deleted when the disk is full,
 * so that the database, the records and the end of sandboxes have space, and created again when there is
 * enough.
 */
import { open, rm, stat, statfs, truncate } from 'node:fs/promises'
import { join } from 'node:path'
import type { DiskReserve } from '../../core/sandbox/capacity/disk-guard.ts'
import { type DiskLevels, diskLevels } from '../../core/sandbox/capacity/disk-levels.ts'
import { ifPresent } from '../../lib/if-present.ts'
import { runCommand } from '../../lib/run-command.ts'

const blockBytes = 512
const zeros = Buffer.alloc(1024 * 1024)

export class FileReserve implements DiskReserve {
  readonly #path: string
  readonly #bytes: number

  constructor(dataFolder: string, bytes: number) {
    this.#path = join(dataFolder, 'reserve')
    this.#bytes = bytes
  }

  async giveUp(): Promise<void> {
    await rm(this.#path, { force: true }).catch(() => {})
  }

  /** For the first steps of a start, before the sandboxes that fill the disk are frozen. */
  async giveUpHalf(): Promise<void> {
    const half = Math.floor((await this.reservedBytes()) / 2)
    await truncate(this.#path, half).catch(() => {})
  }

  async restore(): Promise<boolean> {
    if ((await this.reservedBytes()) >= this.#bytes) return false
    try {
      const file = await open(this.#path, 'a', 0o600)
      await file.close()
      await runCommand('fallocate', ['--length', String(this.#bytes), this.#path]).catch(() => this.#write())
      return true
    } catch (error) {
      await this.giveUp()
      throw error
    }
  }

  async isThere(): Promise<boolean> {
    return (await this.reservedBytes()) >= this.#bytes
  }

  /** For a file system that cannot allocate blocks ahead. */
  async #write(): Promise<void> {
    const file = await open(this.#path, 'w', 0o600)
    try {
      for (let left = this.#bytes; left > 0; left -= zeros.length)
        await file.write(zeros, 0, Math.min(left, zeros.length))
      await file.sync()
    } finally {
      await file.close()
    }
  }

  /** The bytes of real blocks that it holds now. */
  async reservedBytes(): Promise<number> {
    const found = await ifPresent(stat(this.#path))
    return found ? Math.min(found.size, found.blocks * blockBytes) : 0
  }
}

export async function readDiskLevels(dataFolder: string, reserveMB: number): Promise<DiskLevels> {
  const { blocks, bsize } = await statfs(dataFolder)
  return diskLevels(blocks * bsize, reserveMB)
}

export async function freeBytes(folder: string): Promise<number> {
  const { bavail, bsize } = await statfs(folder)
  return bavail * bsize
}
