/**
 * What teams use of this machine's disk outside of running sandboxes: volumes and the snapshots of paused sandboxes. The disk
 * guard asks several times a second, so the answer is kept for a while, and each snapshot is measured once.
 */
import type { Clock } from '../../../lib/clock.ts'

type TeamDiskParts = {
  /** Of this machine. */
  listVolumes: () => Promise<{ teamID: string; sizeMB: number }[]>
  listPaused: () => Promise<{ teamID: string; snapshot: { name: string } | null }[]>
  /** Bytes of one snapshot on the disk. */
  snapshotBytes: (name: string) => Promise<number>
  clock: Clock
}

const keepMs = 5000
/** Snapshots to measure in one reading; the others are measured in the next ones. */
const maxMeasured = 50

export class TeamDisk {
  readonly #parts: TeamDiskParts
  #bytes: ReadonlyMap<string, number> = new Map()
  #snapshots = new Map<string, number>()
  #readAt = Number.NEGATIVE_INFINITY
  #reading: Promise<void> | undefined

  constructor(parts: TeamDiskParts) {
    this.#parts = parts
  }

  /** Returns the last reading by team, at once, and begins another if it is old. */
  bytes(): ReadonlyMap<string, number> {
    const { clock } = this.#parts
    if (!this.#reading && clock.now() - this.#readAt >= keepMs)
      this.#reading = this.#read().finally(() => {
        this.#reading = undefined
        this.#readAt = clock.now()
      })
    return this.#bytes
  }

  /** Bytes by team, after the reading that is due. */
  async newestBytes(): Promise<ReadonlyMap<string, number>> {
    this.bytes()
    await this.#reading
    return this.#bytes
  }

  async #read(): Promise<void> {
    const { listVolumes, listPaused, snapshotBytes } = this.#parts
    try {
      const [volumes, paused] = await Promise.all([listVolumes(), listPaused()])
      const bytes = new Map<string, number>()
      const add = (teamID: string, more: number) => bytes.set(teamID, (bytes.get(teamID) ?? 0) + more)
      for (const { teamID, sizeMB } of volumes) add(teamID, sizeMB * 1024 * 1024)
      const measured = new Map<string, number>()
      let left = maxMeasured
      for (const { teamID, snapshot } of paused) {
        if (!snapshot) continue
        const known = this.#snapshots.get(snapshot.name)
        if (known === undefined && left-- <= 0) continue
        const size = known ?? (await snapshotBytes(snapshot.name))
        measured.set(snapshot.name, size)
        add(teamID, size)
      }
      this.#snapshots = measured
      this.#bytes = bytes
    } catch {
      // The database or the disk does not answer; the last reading counts until it does.
    }
  }
}
