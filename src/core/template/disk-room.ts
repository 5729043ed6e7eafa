/** Keeps a part of the disk free: by pruning, oldest use first, and where that is not enough by refusing builds. */
import { AppError, errorText } from '../../lib/app-error.ts'
import { JoinedWork } from '../../lib/keyed-lock.ts'
import type { Log } from '../../lib/log.ts'
import type { PruneReport, Pruning } from './pruning.ts'

export type DiskRoomParts = {
  pruning: Pick<Pruning, 'run' | 'oldestUses'>
  freeBytes: () => Promise<number>
  minFreeBytes: number
  log: Log
}

/** So many steps or files go before the disk is looked at again. */
const atOnce = 10

export class DiskRoom {
  readonly #parts: DiskRoomParts
  readonly #work = new JoinedWork<boolean>()
  #isShort = false

  constructor(parts: DiskRoomParts) {
    this.#parts = parts
  }

  /** Prunes until enough is free. False: pruning could not help. Never rejects. */
  make(): Promise<boolean> {
    return this.#work.run('', () => this.#make())
  }

  /** Rejects with `no_space` where there is too little for anything new. */
  async require(): Promise<void> {
    if (await this.make()) return
    throw new AppError(
      'no_space',
      `There is too little room on the disk for a new build: ${megabytes(await this.#parts.freeBytes())} are free, ` +
        `${megabytes(this.#parts.minFreeBytes)} must stay so (WARREN_MIN_FREE_DISK_MB), and nothing is left to ` +
        'prune. Delete templates, snapshots or paused sandboxes, or ask the operator for a bigger disk.',
      { retry: { should: false } },
    )
  }

  async #make(): Promise<boolean> {
    const { freeBytes, minFreeBytes, log } = this.#parts
    try {
      if ((await freeBytes()) < minFreeBytes) await this.#prune()
      const free = await freeBytes()
      const isShort = free < minFreeBytes
      if (isShort && !this.#isShort) {
        const text = `the disk is short of room (${megabytes(free)} free) and pruning does not help: new builds are refused`
        log.warn({ free, wanted: minFreeBytes }, text)
      }
      if (!isShort && this.#isShort) log.info({ free }, 'the disk has room again: builds go on')
      this.#isShort = isShort
      return !isShort
    } catch (error) {
      log.error({ err: error }, `could not make room on the disk: ${errorText(error)}`)
      return true
    }
  }

  async #prune(): Promise<void> {
    const { pruning, freeBytes, minFreeBytes } = this.#parts
    // First what is of no use to anybody.
    this.#tell(await pruning.run({ before: 0, dryRun: false }))
    while ((await freeBytes()) < minFreeBytes) {
      const last = (await pruning.oldestUses(atOnce)).at(-1)
      if (last === undefined) return
      const report = await pruning.run({ before: last + 1, dryRun: false })
      this.#tell(report)
      // All of it came into use meanwhile.
      if (report.steps.count + report.files.count === 0) return
    }
  }

  #tell(report: PruneReport): void {
    const { steps, savedStates, layers, files } = report
    const bytes = savedStates.bytes + layers.bytes + files.bytes
    if (steps.count + savedStates.count + layers.count + files.count === 0) return
    this.#parts.log.info(
      { ...report, bytes },
      `the disk is short of room: removed ${steps.count} cached steps, ${savedStates.count} snapshots, ` +
        `${layers.count} layers and ${files.count} uploads that nothing needs (${megabytes(bytes)})`,
    )
  }
}

const megabytes = (bytes: number): string => `${Math.floor(bytes / 1024 ** 2)} MiB`
