/**
 * What the driver knows of a sandbox, on disk: a folder with its record, written before anything else of the
 * sandbox is made and removed after everything else is gone. So a sandbox that is there, even half, is found. What is
 * small is written and removed at once: each step that waits for a thread takes longer than all of them together.
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
  /** The boot that its memory comes from: another one for a fork, the same one after a pause. */
  bootID: string
  runtime: RuntimeName
  /** The build that runs the sandbox, and how: only the same one can speak to it and write its memory to disk. */
  runtimeBinary: string
  platform: string | null
  agentFolder: string
  /** How many disks of earlier sandboxes lie read-only below its own. */
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
  /** Nobody would miss it, because it has no owner yet. */
  disposable?: true
  /** It was stopped: nothing of it runs any more, and what is left waits to be taken apart. */
  ended?: true
  /** Nobody waits for it, because it has no owner yet. */
  background?: true
  /** Missing: it has no GPU. */
  gpus?: HeldGpus
  /** The host's CPUs it may run on, as the kernel writes lists; null where it may use all. */
  cpus: string | null
}

/** The GPUs of a sandbox. Memory in which they were used needs the same number of the same kind under the same driver. */
export type HeldGpus = {
  ids: readonly string[]
  model: string
  driver: string
  /** The folder with the driver's libraries, mounted in the sandbox. */
  files: string
}

export const recordVersion = 1
const recordName = 'record.json'
const largestSmallBytes = 1024 * 1024

export function assertSandboxID(sandboxID: string): void {
  // It becomes a folder, a cgroup and a host name.
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
      mkdirSync(folder)
    } catch (error) {
      if ((error as NodeJS.ErrnoException).code !== 'EEXIST') throw error
      throw new AppError('already_exists', `Sandbox ${record.sandboxID} is already there; stop it first.`)
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
   * Undefined: nothing is there, or a folder whose record was never finished and that therefore holds nothing.
   * A record that is there and cannot be read rejects.
   */
  async read(sandboxID: string): Promise<SandboxRecord | undefined> {
    const stored = await readVersioned<StoredRecord>(this.#path(sandboxID), recordVersion)
    return stored && withEgress(stored)
  }

  async names(): Promise<string[]> {
    return (await ifPresent(readdir(this.#layout.sandboxes))) ?? []
  }

  /** Rejects when one of them cannot be read: who asks for all must not act on a part. */
  async all(): Promise<SandboxRecord[]> {
    const found = await Promise.all((await this.names()).map((sandboxID) => this.read(sandboxID)))
    return found.filter((record) => record !== undefined)
  }

  /** The record goes last: until then the sandbox can be found. */
  async remove(sandboxID: string): Promise<void> {
    const folder = this.#layout.sandbox(sandboxID)
    const names = ifPresentNow(() => readdirSync(folder))
    if (!names) return
    const others = names.filter((name) => name !== recordName).map((name) => join(folder, name))
    // The blocks of a disk take long to be freed; whatever else lies here is small.
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

/** Records of earlier versions say only whether the sandbox may send at all. */
type StoredRecord = Omit<SandboxRecord, 'egress'> & { egress?: AddressRules; internet?: boolean }

function withEgress({ internet, egress, ...record }: StoredRecord): SandboxRecord {
  return { ...record, egress: egress ?? { ...openRules, deny: internet === true ? [] : [closedToAll] } }
}
