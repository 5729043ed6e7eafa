/** Keeps a part of the disk free: prunes, oldest use first, and rejects builds if that is not enough. */
import { AppError, errorText } from '../../lib/app-error.ts'
import { JoinedWork } from '../../lib/keyed-lock.ts'
import type { Log } from '../../lib/log.ts'
import type { PruneReport, Pruner } from './pruner.ts'

type DiskSpaceParts = {
  pruner: Pick<Pruner, 'run' | 'oldestUses'>
  freeBytes: () => Promise<number>
  minFreeBytes: number
  log: Log
}

/** Number of steps or files to remove before the free space is measured again. */
const atOnce = 10

export class DiskSpace {
  readonly #parts: DiskSpaceParts
  readonly #work = new JoinedWork<boolean>()
  #isShort = false

  constructor(parts: DiskSpaceParts) {
    this.#parts = parts
  }

  /** Prunes until enough disk space is free. False if pruning could not help or failed. Never rejects. */
  free(): Promise<boolean> {
    return this.#work.run('', () => this.#free())
  }

  /** Rejects with `no_space` while there is too little disk space for a new build. */
  async require(): Promise<void> {
    if (await this.free()) return
    throw new AppError(
      'no_space',
      `There is too little disk space: ${megabytes(await this.#parts.freeBytes())} are free, ` +
        `${megabytes(this.#parts.minFreeBytes)} must stay so (WARREN_MIN_FREE_DISK_MB), and nothing is left to ` +
        'prune. Delete templates, snapshots or paused sandboxes, or ask the operator for a bigger disk.',
      { retry: { should: false } },
    )
  }

  async #free(): Promise<boolean> {
    const { freeBytes, minFreeBytes, log } = this.#parts
    try {
      if ((await freeBytes()) < minFreeBytes) {
        await this.#prune().catch((error) => {
          log.error({ err: error }, `could not free disk space: ${errorText(error)}`)
        })
      }
      const free = await freeBytes()
      const isShort = free < minFreeBytes
      if (isShort && !this.#isShort) {
        const text = `the disk is nearly full (${megabytes(free)} free) and pruning does not help: new builds are rejected`
        log.warn({ free, wanted: minFreeBytes }, text)
      }
      if (!isShort && this.#isShort)
        log.info({ free }, 'the disk has enough free space again: new builds are accepted')
      this.#isShort = isShort
      return !isShort
    } catch (error) {
      log.error({ err: error }, `could not measure the free disk space: ${errorText(error)}`)
      return true
    }
  }

  async #prune(): Promise<void> {
    const { pruner, freeBytes, minFreeBytes } = this.#parts
    // Things that nobody can use again come first.
    this.#report(await pruner.run({ before: 0, dryRun: false }))
    while ((await freeBytes()) < minFreeBytes) {
      const last = (await pruner.oldestUses(atOnce)).at(-1)
      if (last === undefined) return
      const report = await pruner.run({ before: last + 1, dryRun: false })
      this.#report(report)
      // All listed steps and files came into use meanwhile.
      if (report.steps.count + report.files.count === 0) return
    }
  }

  #report(report: PruneReport): void {
    const { steps, savedStates, layers, files } = report
    const bytes = savedStates.bytes + layers.bytes + files.bytes
    if (steps.count + savedStates.count + layers.count + files.count === 0) return
    this.#parts.log.info(
      { ...report, bytes },
      `the disk is nearly full: removed ${steps.count} cached steps, ${savedStates.count} snapshots, ` +
        `${layers.count} layers and ${files.count} uploads that nothing needs (${megabytes(bytes)})`,
    )
  }
}

const megabytes = (bytes: number): string => `${Math.floor(bytes / 1024 ** 2)} MiB`
