/**
 * The volumes of teams: files that outlive sandboxes and that several sandboxes share. A volume is a row and
 * a disk. The row is created first and removed last, so that a disk is never without one. A disk is removed
 * only in a turn in which the row says that it is being deleted. `reconcile` finishes or undoes what a crash
 * or a lost answer left in between.
 */
import { AppError, isAppError, shownText } from '../../lib/app-error.ts'
import type { Clock } from '../../lib/clock.ts'
import { newUUID, uuidForm } from '../../lib/ids.ts'
import { KeyedLock } from '../../lib/keyed-lock.ts'
import type { Log } from '../../lib/log.ts'
import type { InTurn } from '../../lib/turns.ts'
import type { DiskMount } from '../ports/driver.ts'
import type { Team } from '../team/team.ts'
import {
  contentIsBusy,
  diskNotBack,
  noLostVolume,
  perhapsCreated,
  recoveredNameInUse,
  tooManyVolumes,
  volumeInUse,
  volumeNameInUse,
  volumeNotFound,
} from './errors.ts'
import type { LostVolume, LostVolumeStore } from './lost-volume-store.ts'
import type { VolumeTokens } from './tokens.ts'
import { checkMounts, checkVolumeName, type Volume, type VolumeMount, type WantedMount } from './volume.ts'
import type { AcquiredDisk, VolumeDisks, VolumeFiles } from './volume-files.ts'
import type { VolumeStore } from './volume-store.ts'
import { type DeletingVolume, isDeleting, VolumeTurns } from './volume-turns.ts'

export type VolumeSettings = {
  /** Maximum number of volumes of a team. */
  perTeam: number
  /** Size of a new volume in MiB. */
  sizeMB: number
}

type VolumeServiceParts = {
  volumes: VolumeStore
  lost: LostVolumeStore
  disks: VolumeDisks
  tokens: VolumeTokens
  settings: VolumeSettings
  /** Rejects with `no_space` if the disk of the machine is nearly full. */
  requireDiskSpace: (teamID: string, bytes: number) => Promise<void>
  clock: Clock
  log: Log
}

/** Disks that are held for a start. */
type AcquiredMounts = {
  mounts: DiskMount[]
  /** Never rejects, because a failed release does not affect the sandbox. */
  release(): Promise<void>
}

/** Maximum number of concurrent requests for the content of one volume. */
const maxContentRequests = 64

export class VolumeService {
  readonly #parts: VolumeServiceParts
  readonly #turns: VolumeTurns
  readonly #rounds = new KeyedLock()
  /** Disks that no start needs any longer and whose release failed. */
  readonly #unreleased = new Set<AcquiredDisk>()
  readonly #contentRequests = new Map<string, number>()
  /** Volumes with a missing disk or row that were logged already. */
  readonly #reported = new Set<string>()

  constructor(parts: VolumeServiceParts) {
    this.#parts = parts
    this.#turns = new VolumeTurns(parts.volumes, parts.lost, parts.clock)
  }

  async create({ teamID }: Team, name: string): Promise<Volume> {
    const { settings, clock, requireDiskSpace, disks } = this.#parts
    checkVolumeName(name)
    await requireDiskSpace(teamID, settings.sizeMB * 1024 * 1024)
    const volumeID = newUUID()
    const state = 'creating' as const
    const volume: Volume = { volumeID, teamID, name, state, sizeMB: settings.sizeMB, createdAt: clock.now() }
    return this.#turns.begin(volumeID, async () => {
      const row = await this.#turns.insert(volume, settings.perTeam).catch(volumeNameInUse(name))
      if (!row) throw tooManyVolumes(settings.perTeam)
      try {
        await disks.create(volumeID, volume.sizeMB)
      } catch (error) {
        await this.#undoCreation(row)
        throw error
      }
      const ready = await this.#turns.markReady(row).catch((error) => {
        throw perhapsCreated(name, error)
      })
      if (!ready)
        throw new AppError('conflict', `The team was deleted while volume "${name}" was being created`)
      return ready
    })
  }

  async #undoCreation(row: InTurn<Volume>): Promise<void> {
    const { volumeID } = row
    await this.#finish(row).catch((cause) => {
      this.#parts.log.error(
        { volumeID, err: cause },
        'A volume whose creation failed could not be removed completely; trying again later.',
      )
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

  /** The volumes that were lost with forgotten nodes, in the order of their loss. */
  listLost(): Promise<LostVolume[]> {
    return this.#parts.lost.list()
  }

  /**
   * Gives a lost volume whose disk is on this machine back to its team, under its name or a new one. The limit
   * of the team does not apply: the operator decides. Succeeds if the volume was recovered already.
   */
  async recover(volumeID: string, newName?: string): Promise<Volume> {
    const { lost, disks, log } = this.#parts
    if (newName !== undefined) checkVolumeName(newName)
    return this.#turns.acquire(volumeID, async ({ row }) => {
      if (row?.state === 'ready') return row
      const found = await lost.find(volumeID)
      if (!found) throw noLostVolume(volumeID)
      if (!(await disks.list()).includes(volumeID)) throw diskNotBack(found)
      const name = newName ?? found.name
      const recovered = await this.#turns.recover(volumeID, name).catch(recoveredNameInUse(volumeID, name))
      if (!recovered) throw noLostVolume(volumeID)
      this.#reported.delete(volumeID)
      const { teamID } = recovered
      log.info({ volumeID, teamID, name: recovered.name }, 'volume recovered')
      return recovered
    })
  }

  /** Rejects with `conflict` while a sandbox that has not ended has it mounted, even a paused one. */
  async delete(team: Team, volumeID: string): Promise<void> {
    await this.get(team, volumeID)
    await this.#turns.acquire(volumeID, async ({ row }) => {
      if (row?.state !== 'ready') throw volumeNotFound(volumeID)
      await this.#deleteReady(row)
    })
  }

  /** Deletes the team's volumes of this node, including those of unfinished creations and deletions. */
  async deleteAll({ teamID }: Team): Promise<void> {
    const own = (await this.#parts.volumes.listAll()).filter((volume) => volume.teamID === teamID)
    for (const { volumeID } of own) {
      await this.#turns.acquire(volumeID, async ({ row }) => {
        if (row?.state === 'ready') await this.#deleteReady(row)
        else if (row) await this.#finish(row)
      })
    }
  }

  async #deleteReady(row: InTurn<Volume>): Promise<void> {
    const { volumeID, teamID, name } = row
    const result = await this.#turns.beginDeletion(row)
    if (!result) throw volumeNotFound(volumeID)
    if ('usedBy' in result) throw volumeInUse(name, result.usedBy)
    await this.#discard(result.begun)
    this.#parts.log.info({ volumeID, teamID }, 'volume deleted')
  }

  /**
   * Resolves the client's mounts to those that a row stores. Unknown names and names of other teams get the
   * same error.
   */
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

  /** Acquires the disks of these mounts, until the sandbox has mounted them. */
  async acquire(mounts: readonly VolumeMount[]): Promise<AcquiredMounts> {
    const acquired = await Promise.allSettled(
      mounts.map(({ volumeID }) => this.#parts.disks.acquire(volumeID)),
    )
    const disks = acquired.flatMap((each) => (each.status === 'fulfilled' ? [each.value] : []))
    const release = () => this.#release(disks)
    const failed = acquired.findIndex(({ status }) => status === 'rejected')
    if (failed < 0) {
      return { mounts: disks.map(({ disk }, at) => ({ ...disk, path: mounts[at]!.path })), release }
    }
    await release()
    const { reason } = acquired[failed] as PromiseRejectedResult
    const why = isAppError(reason) ? reason.code : 'unavailable'
    throw new AppError(why, `Volume "${mounts[failed]!.name}" cannot be mounted: ${shownText(reason)}`, {
      cause: reason,
    })
  }

  /** `reconcile` tries again to release disks that cannot be released now. */
  async #release(disks: Iterable<AcquiredDisk>): Promise<void> {
    for (const acquired of disks) {
      this.#unreleased.delete(acquired)
      try {
        await acquired.release()
      } catch (error) {
        this.#unreleased.add(acquired)
        const { device } = acquired.disk
        this.#parts.log.error(
          { device, err: error },
          'The disk of a volume could not be released; trying again later.',
        )
      }
    }
  }

  /** Runs the work on the files of a volume for a caller that shows its token. */
  async withFiles<T>(
    volumeID: string,
    token: string | undefined,
    work: (files: VolumeFiles) => Promise<T>,
  ): Promise<T> {
    const { disks, tokens } = this.#parts
    tokens.check(volumeID, token)
    const under = this.#contentRequests.get(volumeID) ?? 0
    if (under >= maxContentRequests) throw contentIsBusy(maxContentRequests)
    this.#contentRequests.set(volumeID, under + 1)
    try {
      await this.#requireReady(volumeID)
      return await disks.useFiles(volumeID, async (files) => {
        // Checked again: the volume may have been deleted while its disk was opened.
        await this.#requireReady(volumeID)
        return work(files)
      })
    } catch (error) {
      // The disk may be missing because the volume was deleted meanwhile.
      if (isAppError(error, 'unavailable')) await this.#requireReady(volumeID)
      throw error
    } finally {
      const left = this.#contentRequests.get(volumeID)! - 1
      if (left === 0) this.#contentRequests.delete(volumeID)
      else this.#contentRequests.set(volumeID, left)
    }
  }

  async #requireReady(volumeID: string): Promise<void> {
    if ((await this.#parts.volumes.find(volumeID))?.state !== 'ready') throw volumeNotFound(volumeID)
  }

  /**
   * Finishes deletions and undoes creations that were cut off. Leaves a ready volume without a disk and a
   * disk without a row alone, and logs each once: the disk may come back, and an unowned disk may still be
   * wanted. Marks lost volumes whose disks are here, so that the operator can recover them. Runs one round at a time.
   */
  reconcile(): Promise<void> {
    return this.#rounds.run('round', () => this.#reconcileAll())
  }

  async #reconcileAll(): Promise<void> {
    const { volumes, lost, disks } = this.#parts
    await this.#release([...this.#unreleased])
    const there = new Set(await disks.list())
    const rows = await volumes.listAll()
    const owned = new Set(rows.map(({ volumeID }) => volumeID))
    const inDoubt = [
      ...rows.filter(({ volumeID, state }) => state !== 'ready' || !there.has(volumeID)),
      ...[...there].filter((volumeID) => !owned.has(volumeID)).map((volumeID) => ({ volumeID })),
    ]
    const doubted = new Set(inDoubt.map(({ volumeID }) => volumeID))
    for (const volumeID of this.#reported) if (!doubted.has(volumeID)) this.#reported.delete(volumeID)
    for (const volumeID of doubted) {
      await this.#turns
        .acquireIfFree(volumeID, ({ row }) => this.#reconcileOne(volumeID, row))
        ?.catch((error) => {
          this.#parts.log.error(
            { volumeID, err: error },
            'A volume could not be reconciled; trying again later.',
          )
        })
    }
    await lost.noteMissing(there)
    await disks.closeIdle()
  }

  async #reconcileOne(volumeID: string, row: InTurn<Volume> | undefined): Promise<void> {
    if (row && row.state !== 'ready') return this.#finish(row)
    const isThere = (await this.#parts.disks.list()).includes(volumeID)
    if (row ? isThere : !isThere) return
    const { lost, clock, log } = this.#parts
    const found = row ? undefined : await lost.noteFound(volumeID, clock.now())
    if (this.#reported.has(volumeID)) return
    this.#reported.add(volumeID)
    if (row)
      log.error(
        { volumeID },
        'The disk of a volume is missing. Requests for the volume fail until the disk is back.',
      )
    else if (found)
      log.warn(
        { volumeID, teamID: found.teamID, name: found.name },
        `The disk of a volume that was lost with a forgotten node is here. Run \`warren volume recover ${volumeID}\`.`,
      )
    else log.warn({ volumeID }, 'No row owns this volume disk. It is left alone; delete it by hand.')
  }

  /** Undoes the creation, or finishes the deletion, of a volume that nobody is creating or deleting. */
  async #finish(row: InTurn<Volume>): Promise<void> {
    const deleting = isDeleting(row) ? row : await this.#turns.cancelCreation(row)
    if (deleting) await this.#discard(deleting)
  }

  /** Removes the disk before the row, so that a row exists as long as anything of the disk does. */
  async #discard(row: DeletingVolume): Promise<void> {
    await this.#parts.disks.remove(row.volumeID)
    await this.#turns.forget(row)
  }
}
