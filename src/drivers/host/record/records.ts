/**
 * The records of sandboxes on disk: a folder with a record, written before anything else of the sandbox is
 * made and removed after everything else is gone. So every sandbox is found, even an incomplete one. Small
 * files use synchronous I/O: a trip through the thread pool costs more.
 */
import { lstatSync, mkdirSync, readdirSync, renameSync, rmdirSync, rmSync, writeFileSync } from 'node:fs'
import { readdir, rm } from 'node:fs/promises'
import { join } from 'node:path'
import type { DiskMount } from '../../../core/ports/driver.ts'
import { type AddressRules, closedToAll, openRules } from '../../../core/ports/egress.ts'
import { AppError } from '../../../lib/app-error.ts'
import { ifPresent, ifPresentNow } from '../../../lib/if-present.ts'
import type { Layout } from './layout.ts'
import { readVersioned } from './versioned-file.ts'

export type RuntimeName = 'runc' | 'runsc'

export type SandboxRecord = {
  version: 1
  sandboxID: string
  runID: string
  /** The boot that its memory comes from: a new one for a fork, the same one after a pause. */
  bootID: string
  runtime: RuntimeName
  /**
   * The build that runs the sandbox, and its platform: only the same build can control it and write its
   * memory to disk.
   */
  runtimeBinary: string
  platform: string | null
  agentFolder: string
  /** Number of disks of earlier sandboxes that are read-only below its own. */
  layers: number
  slot: number
  address: string
  rootFolder: string
  /** Image layers below it, the nearest first. */
  lowerFolders?: readonly string[]
  cpuCount: number
  memoryMB: number
  diskMB: number
  egress: AddressRules
  /** Disks that it shares with others. */
  mounts?: readonly DiskMount[]
  /** It has no owner yet, so it may be removed. */
  disposable?: true
  /** It was stopped: nothing of it runs any more, and its remains wait to be dismantled. */
  ended?: true
  /** It has no owner yet, so nobody waits for it. */
  background?: true
  /** Missing if it has no GPU. */
  gpus?: ReservedGpus
  /** The host CPUs it may use, in the kernel's list notation; null if it may use all. */
  cpus: string | null
}

/** The GPUs of a sandbox. Memory in which they were used needs the same number of the same kind under the same driver. */
export type ReservedGpus = {
  ids: readonly string[]
  model: string
  driver: string
  /** The folder with the driver's libraries, mounted in the sandbox. */
  files: string
  /** As in the options of the driver. */
  borrowedInterface?: string
}

export const recordVersion = 1
const recordName = 'record.json'
const largestSmallBytes = 1024 * 1024

export function assertSandboxID(sandboxID: string): void {
  // The ID becomes the name of a folder, a cgroup and a host.
  if (!/^[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?$/.test(sandboxID)) {
    throw new AppError(
      'invalid_argument',
      `"${sandboxID}" cannot name a sandbox: use a-z, 0-9 and dashes, at most 63.`,
    )
  }
}

export class Records {
  readonly #layout: Layout

  constructor(layout: Layout) {
    this.#layout = layout
  }

  async create(record: SandboxRecord): Promise<void> {
    const folder = this.#layout.sandbox(record.sandboxID)
    try {
      mkdirSync(folder, { mode: 0o700 })
    } catch (error) {
      if ((error as NodeJS.ErrnoException).code !== 'EEXIST') throw error
      throw new AppError('already_exists', `Sandbox ${record.sandboxID} exists already; stop it first.`)
    }
    try {
      await this.replace(record)
    } catch (error) {
      rmSync(folder, { recursive: true, force: true })
      throw error
    }
  }

  async replace(record: SandboxRecord): Promise<void> {
    const path = this.#path(record.sandboxID)
    writeFileSync(`${path}.new`, JSON.stringify(record))
    renameSync(`${path}.new`, path)
  }

  /**
   * Undefined if there is nothing, or a folder whose record was never finished and that therefore holds
   * nothing. Rejects if a record exists and cannot be read.
   */
  async read(sandboxID: string): Promise<SandboxRecord | undefined> {
    const stored = await readVersioned<WrittenRecord>(this.#path(sandboxID), recordVersion)
    return stored && withEgress(stored)
  }

  async names(): Promise<string[]> {
    return (await ifPresent(readdir(this.#layout.sandboxes))) ?? []
  }

  /** Rejects if one of them cannot be read: a caller that needs all must not act on a part. */
  async all(): Promise<SandboxRecord[]> {
    const found = await Promise.all((await this.names()).map((sandboxID) => this.read(sandboxID)))
    return found.filter((record) => record !== undefined)
  }

  /** Removes the record last: until then the sandbox can be found. */
  async remove(sandboxID: string): Promise<void> {
    const folder = this.#layout.sandbox(sandboxID)
    const names = ifPresentNow(() => readdirSync(folder))
    if (!names) return
    const others = names.filter((name) => name !== recordName).map((name) => join(folder, name))
    // Freeing the blocks of a disk takes long; all other files here are small.
    const disks = others.filter(
      (path) => (ifPresentNow(() => lstatSync(path))?.size ?? 0) > largestSmallBytes,
    )
    await Promise.all(disks.map((path) => rm(path, { recursive: true, force: true })))
    for (const path of others) rmSync(path, { recursive: true, force: true })
    rmSync(join(folder, recordName), { force: true })
    ifPresentNow(() => rmdirSync(folder))
  }

  #path(sandboxID: string): string {
    return join(this.#layout.sandbox(sandboxID), recordName)
  }
}

/** Records of earlier versions say only whether the sandbox has internet access. */
type WrittenRecord = Omit<SandboxRecord, 'egress'> & { egress?: AddressRules; internet?: boolean }

function withEgress({ internet, egress, ...record }: WrittenRecord): SandboxRecord {
  return { ...record, egress: egress ?? { ...openRules, deny: internet === true ? [] : [closedToAll] } }
}
