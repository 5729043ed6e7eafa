/** `runsc checkpoint` and `runsc restore` by hand: what a pause, a resume and a fork cost with nothing around. */
import { mkdir, readFile, rm } from 'node:fs/promises'
import { join } from 'node:path'
import { delay } from '../../../src/lib/clock.ts'
import { runCommand } from '../../../src/lib/run-command.ts'
import { cacheFolder } from '../../support/warren.ts'
import { timed } from '../measure.ts'
import { type Bundle, openBundle, type RawSlot, untilHealthy } from './raw-runtime.ts'
import type { ContainerProcess } from './raw-spec.ts'

export type RawPauseOptions = {
  process: ContainerProcess
  /** The first is for the sandbox itself, the others for its forks. */
  slots: readonly [RawSlot, ...RawSlot[]]
  /** A file inside that is there as soon as the sandbox is as it should be. */
  readyFile: string
  /** True: what a pause has kept outlives a power cut, and nothing of it is in the page cache. */
  lasting: boolean
}

let made = 0

export class RawPause {
  readonly #options: RawPauseOptions
  readonly #folder = join(cacheFolder, `bench-raw-memory-${process.pid}-${++made}`)
  readonly #original: Bundle
  readonly #bundles: Bundle[]

  private constructor(options: RawPauseOptions, original: Bundle) {
    this.#options = options
    this.#original = original
    this.#bundles = [original]
  }

  static async open(options: RawPauseOptions): Promise<RawPause> {
    const [slot] = options.slots
    const raw = new RawPause(options, await openBundle('raw-pause', slot, options.process))
    try {
      await mkdir(raw.#folder, { recursive: true })
      await raw.#original.run('--detach')
      await untilHealthy(slot.network.address)
      await untilThere(join(raw.#original.upper, options.readyFile))
      return raw
    } catch (error) {
      await raw.close()
      throw error
    }
  }

  /** Takes a checkpoint while the sandbox keeps running, and restores it several times at once, until every agent answers. */
  async fork(): Promise<number> {
    const memory = join(this.#folder, 'fork')
    const [, ...slots] = this.#options.slots
    const [savedMs] = await timed(() => this.#original.checkpoint(memory, '--leave-running'))
    const forks = await Promise.all(slots.map((slot) => this.#copy(slot)))
    const [startedMs] = await timed(() =>
      Promise.all(forks.map((one, index) => restore(one, memory, slots[index]!))),
    )
    await Promise.all(forks.map((one) => one.close()))
    await rm(memory, { recursive: true })
    return savedMs + startedMs
  }

  /** A checkpoint after which the sandbox is gone. */
  async pause(): Promise<number> {
    const memory = join(this.#folder, 'pause')
    const [ms] = await timed(async () => {
      await this.#original.checkpoint(memory, ...this.#direct())
      if (!this.#options.lasting) return
      await runCommand('sync', [memory, ...memoryFiles.map((name) => join(memory, name))])
    })
    return ms
  }

  /** A restore, until the agent answers. */
  async resume(): Promise<number> {
    const [slot] = this.#options.slots
    const copy = await this.#copy(slot)
    const [ms] = await timed(() => restore(copy, join(this.#folder, 'pause'), slot, ...this.#direct()))
    const pid = await readFile(join(copy.upper, this.#options.readyFile), 'utf8')
    await copy.exec(['test', '-d', `/proc/${pid}`])
    return ms
  }

  async close(): Promise<void> {
    await Promise.all(this.#bundles.splice(0).map((bundle) => bundle.close()))
    await rm(this.#folder, { recursive: true, force: true })
  }

  async #copy(slot: RawSlot): Promise<Bundle> {
    const copy = await openBundle('raw-pause', slot, this.#options.process)
    this.#bundles.push(copy)
    await runCommand('cp', ['-a', `${this.#original.upper}/.`, copy.upper])
    return copy
  }

  #direct(): string[] {
    return this.#options.lasting ? ['--direct'] : []
  }
}

const memoryFiles = ['checkpoint.img', 'pages.img', 'pages_meta.img']

async function restore(
  bundle: Bundle,
  memory: string,
  { network }: RawSlot,
  ...options: string[]
): Promise<void> {
  await bundle.restore(memory, ...options)
  await untilHealthy(network.address)
}

async function untilThere(path: string): Promise<void> {
  const deadline = performance.now() + 60_000
  while (!(await readFile(path, 'utf8').catch(() => ''))) {
    if (performance.now() > deadline) throw new Error(`${path} does not appear`)
    await delay(20)
  }
}
