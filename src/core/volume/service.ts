/**
 * The volumes of teams: files that outlive sandboxes and that several sandboxes share. A volume is a row and a disk.
 * The row comes first and goes last, so that a disk is never without one; rows that a crash left in the middle of
 * that are finished or undone by `reconcile`.
 */
import { AppError, isAppError, shownText } from '../../lib/app-error.ts'
import type { Clock } from '../../lib/clock.ts'
import { newUUID, uuidForm } from '../../lib/ids.ts'
import { KeyedLock } from '../../lib/keyed-lock.ts'
import type { Log } from '../../lib/log.ts'
import type { DiskMount } from '../driver.ts'
import type { VolumeStore } from '../stores.ts'
import type { Team } from '../team/team.ts'
import { contentIsBusy, tooManyVolumes, volumeInUse, volumeNameTaken, volumeNotFound } from './errors.ts'
import type { VolumeTokens } from './tokens.ts'
import { checkMounts, checkVolumeName, type Volume, type VolumeMount, type WantedMount } from './volume.ts'
import type { VolumeDisks, VolumeFiles } from './volume-files.ts'

export type VolumeSettings = {
  /** How many volumes a team may have. */
  perTeam: number
  /** How much a new volume can hold, in MiB. */
  sizeMB: number
}

export type VolumeServiceParts = {
  volumes: VolumeStore
  disks: VolumeDisks
  tokens: VolumeTokens
  settings: VolumeSettings
  /** Rejects with `no_space` when the disk of the machine is nearly full. */
  requireDiskSpace: () => Promise<void>
  clock: Clock
  log: Log
}

/** Disks that are held for a start. */
export type HeldMounts = { mounts: DiskMount[]; release(): Promise<void> }

/** Requests for the content of one volume that may be under way at once. */
const mostContentRequests = 64

export class VolumeService {
  readonly #parts: VolumeServiceParts
  /** One change of a volume at a time. */
  readonly #locks = new KeyedLock()
  /** Volumes that this process is making or deleting. */
  readonly #busy = new Set<string>()
  readonly #contentRequests = new Map<string, number>()
  /** Disks and rows whose other half is missing, as far as that was told already. */
  readonly #told = new Set<string>()

  constructor(parts: VolumeServiceParts) {
    this.#parts = parts
  }

  async create({ teamID }: Team, name: string): Promise<Volume> {
    const { volumes, settings, clock, requireDiskSpace, log } = this.#parts
    checkVolumeName(name)
    await requireDiskSpace()
    const volumeID = newUUID()
    const state = 'creating' as const
    const volume: Volume = { volumeID, teamID, name, state, sizeMB: settings.sizeMB, createdAt: clock.now() }
    return this.#changing(volumeID, async () => {
      const inserted = await volumes.insert(volume, settings.perTeam).catch(volumeNameTaken(name))
      if (!inserted) throw tooManyVolumes(settings.perTeam)
      try {
        await this.#parts.disks.create(volumeID, volume.sizeMB)
        const ready = await volumes.markReady(volumeID)
        if (!ready) throw new AppError('conflict', `The team of volume "${name}" was deleted meanwhile`)
        return ready
      } catch (error) {
        await this.#discard(volumeID).catch((cause) => {
          log.error(
            { volumeID, err: cause },
            'A volume that could not be made is not all gone; trying again later.',
          )
        })
        throw error
      }
    })
  }

  list({ teamID }: Team): Promise<Volume[]> {
    return this.#parts.volumes.list(teamID)
  }

  async get({ teamID }: Team, volumeID: string): Promise<Volume> {
    const found = uuidForm.test(volumeID) ? await this.#parts.volumes.find(volumeID) : undefined
    if (found?.teamID !== teamID || found.state !== 'ready') throw volumeNotFound(volumeID)
    return found
  }

  tokenOf({ volumeID }: Volume): string {
    return this.#parts.tokens.issue(volumeID)
  }

  /** Rejects with `conflict` while a sandbox that has not ended, or is paused, has it mounted. */
  async delete(team: Team, volumeID: string): Promise<void> {
    const { volumes, log } = this.#parts
    const { name } = await this.get(team, volumeID)
    await this.#changing(volumeID, async () => {
      const result = await volumes.beginDeletion(volumeID)
      if (!result) throw volumeNotFound(volumeID)
      if ('usedBy' in result) throw volumeInUse(name, result.usedBy)
      await this.#discard(volumeID)
      log.info({ volumeID, teamID: team.teamID }, 'volume deleted')
    })
  }

  /** Those of this node. */
  async deleteAll(team: Team): Promise<void> {
    for (const { volumeID } of await this.#parts.volumes.listHere(team.teamID))
      await this.delete(team, volumeID)
  }

  /** What a client asked for, as a row keeps it. Unknown names and those of other teams are told alike. */
  async resolve({ teamID }: Team, wanted: readonly WantedMount[]): Promise<VolumeMount[]> {
    const mounts = checkMounts(wanted)
    if (mounts.length === 0) return []
    const known = new Map((await this.#parts.volumes.listHere(teamID)).map((volume) => [volume.name, volume]))
    return mounts.map(({ name, path }) => {
      const volume = known.get(name)
      if (!volume) throw new AppError('not_found', `Volume ${JSON.stringify(name)} not found`)
      return { volumeID: volume.volumeID, name, path }
    })
  }

  /** Holds the disks of these mounts until the sandbox has them mounted. */
  async hold(mounts: readonly VolumeMount[]): Promise<HeldMounts> {
    const held = await Promise.allSettled(mounts.map(({ volumeID }) => this.#parts.disks.hold(volumeID)))
    const disks = held.flatMap((each) => (each.status === 'fulfilled' ? [each.value] : []))
    const release = async () => {
      for (const disk of disks) await disk.release()
    }
    const failed = held.findIndex(({ status }) => status === 'rejected')
    if (failed < 0) {
      return { mounts: disks.map(({ disk }, at) => ({ ...disk, path: mounts[at]!.path })), release }
    }
    await release()
    const { reason } = held[failed] as PromiseRejectedResult
    const why = isAppError(reason) ? reason.code : 'unavailable'
    throw new AppError(why, `Volume "${mounts[failed]!.name}" cannot be mounted: ${shownText(reason)}`, {
      cause: reason,
    })
  }

  /** Works on the files of a volume for whoever shows its token. */
  async withFiles<T>(
    volumeID: string,
    token: string | undefined,
    work: (files: VolumeFiles) => Promise<T>,
  ): Promise<T> {
    const { volumes, disks, tokens } = this.#parts
    tokens.check(volumeID, token)
    const under = this.#contentRequests.get(volumeID) ?? 0
    if (under >= mostContentRequests) throw contentIsBusy(mostContentRequests)
    this.#contentRequests.set(volumeID, under + 1)
    try {
      const found = await volumes.find(volumeID)
      if (found?.state !== 'ready') throw volumeNotFound(volumeID)
      return await disks.useFiles(volumeID, work)
    } finally {
      const left = this.#contentRequests.get(volumeID)! - 1
      if (left === 0) this.#contentRequests.delete(volumeID)
      else this.#contentRequests.set(volumeID, left)
    }
  }

  requireDiskSpace(): Promise<void> {
    return this.#parts.requireDiskSpace()
  }

  /**
   * Finishes deletions and undoes creations that were cut off. A ready volume without its disk, and a disk that no row
   * owns, are left alone and told once: what is missing may come back, and what is there may be wanted.
   */
  async reconcile(): Promise<void> {
    const { volumes, disks, log } = this.#parts
    // Read before the rows: what was made in between then has its row.
    const there = new Set(await disks.list())
    const rows = await volumes.listAll()
    for (const { volumeID, state } of rows) {
      if (this.#busy.has(volumeID)) continue
      if (state !== 'ready') await this.#changing(volumeID, () => this.#discard(volumeID))
      else if (!there.has(volumeID)) {
        this.#tellOnce(volumeID, () =>
          log.error({ volumeID }, 'The disk of a volume is missing; requests for it fail until it is back.'),
        )
      }
    }
    const owned = new Set(rows.map(({ volumeID }) => volumeID))
    for (const volumeID of there) {
      if (owned.has(volumeID) || this.#busy.has(volumeID)) continue
      this.#tellOnce(volumeID, () =>
        log.warn(
          { volumeID },
          'A volume disk is there that no row owns; it is left alone. Delete it by hand.',
        ),
      )
    }
    await disks.closeIdle()
  }

  /** The disk first: as long as anything of it is there, the row says so. */
  async #discard(volumeID: string): Promise<void> {
    await this.#parts.disks.remove(volumeID)
    await this.#parts.volumes.remove(volumeID)
  }

  #changing<T>(volumeID: string, work: () => Promise<T>): Promise<T> {
    return this.#locks.run(volumeID, async () => {
      this.#busy.add(volumeID)
      return work().finally(() => this.#busy.delete(volumeID))
    })
  }

  #tellOnce(volumeID: string, tell: () => void): void {
    if (this.#told.has(volumeID)) return
    this.#told.add(volumeID)
    tell()
  }
}
