/**
 * A program with memory on a GPU in `runsc` called by hand: what a pause, a resume and a fork cost with nothing around but
 * gVisor and the driver's own checkpoint, which gVisor asks for by `--cuda-checkpoint-path`.
 */
import { statSync } from 'node:fs'
import { chmod, mkdir, readFile, rm, symlink, writeFile } from 'node:fs/promises'
import { dirname, join } from 'node:path'
import {
  checkpointProgram,
  driverLinks,
  findLibraryFolder,
} from '../../../src/drivers/host/device/driver-files.ts'
import { delay } from '../../../src/lib/clock.ts'
import { ifPresentNow } from '../../../src/lib/if-present.ts'
import { runCommand } from '../../../src/lib/run-command.ts'
import { cacheFolder } from '../../support/warren.ts'
import { timed } from '../measure.ts'
import { type Bundle, openBundle, type RawSlot, untilHealthy } from './raw-runtime.ts'
import type { ContainerProcess } from './raw-spec.ts'

export type RawGpuOptions = {
  process: ContainerProcess & { gpu: NonNullable<ContainerProcess['gpu']> }
  /** One for the sandbox, one for its fork. */
  slots: readonly [RawSlot, RawSlot]
  /** The counter's source, and what it holds. */
  counter: string
  usedMB: number
}

const [counterFile, countFile, pidFile] = ['counter.py', 'count', 'pid'].map((name) => `/var/tmp/${name}`)
/** As Warren has them, so that both write the same. */
const saveFlags = ['--compression=none', '--exclude-committed-zero-pages']
const gpuFlags = ['--cuda-checkpoint-path', checkpointProgram]
const memoryFiles = ['checkpoint.img', 'pages.img', 'pages_meta.img']
let made = 0

export class RawGpu {
  readonly #options: RawGpuOptions
  readonly #folder = join(cacheFolder, `bench-raw-gpu-${process.pid}-${++made}`)
  readonly #bundles: Bundle[] = []

  private constructor(options: RawGpuOptions) {
    this.#options = options
  }

  static async open(options: RawGpuOptions): Promise<RawGpu> {
    const raw = new RawGpu(options)
    try {
      await mkdir(raw.#folder, { recursive: true })
      const original = await raw.#open(options.slots[0])
      await prepareUpper(original.upper, options)
      await original.run('--detach')
      await untilHealthy(options.slots[0].network.address)
      await untilCounts(original, 0)
      return raw
    } catch (error) {
      await raw.close()
      throw error
    }
  }

  /** What the driver takes by itself: the memory goes to the host and comes back. */
  async parts(): Promise<{ toHost: number; toGpu: number }> {
    const original = this.#bundles[0]!
    const pid = (await readFile(join(original.upper, pidFile!), 'utf8')).trim()
    const toggle = () =>
      original.execAsRoot(['--cap', 'CAP_SYS_PTRACE'], [checkpointProgram, '--toggle', '--pid', pid])
    const [toHost] = await timed(toggle)
    const [toGpu] = await timed(toggle)
    await untilCounts(original, await countOf(original))
    return { toHost, toGpu }
  }

  /** A checkpoint after which the sandbox goes on, and a restore from it. */
  async fork(): Promise<number> {
    const memory = join(this.#folder, 'fork')
    const [original, slot] = [this.#bundles[0]!, this.#options.slots[1]]
    const [savedMs] = await timed(() =>
      original.checkpoint(memory, '--leave-running', ...saveFlags, ...gpuFlags),
    )
    const fork = await this.#copy(original, slot)
    const before = await countOf(fork)
    const [startedMs] = await timed(() => restore(fork, memory, slot))
    await untilCounts(fork, before)
    await fork.close()
    await rm(memory, { recursive: true })
    return savedMs + startedMs
  }

  /** A checkpoint that outlives a power cut, as Warren's does, and after which the sandbox is gone. */
  async pause(): Promise<number> {
    const memory = join(this.#folder, 'pause')
    const [ms] = await timed(async () => {
      await this.#bundles[0]!.checkpoint(memory, '--direct', ...saveFlags, ...gpuFlags)
      await runCommand('sync', [memory, ...memoryFiles.map((name) => join(memory, name))])
    })
    return ms
  }

  async resume(): Promise<number> {
    const [slot] = this.#options.slots
    const copy = await this.#copy(this.#bundles[0]!, slot)
    const before = await countOf(copy)
    const [ms] = await timed(() => restore(copy, join(this.#folder, 'pause'), slot, '--direct'))
    await untilCounts(copy, before)
    return ms
  }

  async close(): Promise<void> {
    await Promise.all(this.#bundles.splice(0).map((bundle) => bundle.close()))
    await rm(this.#folder, { recursive: true, force: true })
  }

  async #open(slot: RawSlot): Promise<Bundle> {
    const { process, usedMB } = this.#options
    const script = `python3 ${counterFile} ${countFile} ${usedMB} & echo $! > ${pidFile}; exec "$@"`
    const bundle = await openBundle('raw-gpu', slot, {
      ...process,
      args: ['/bin/sh', '-c', script, 'sh', ...process.args],
    })
    this.#bundles.push(bundle)
    return bundle
  }

  async #copy({ upper }: Bundle, slot: RawSlot): Promise<Bundle> {
    const copy = await this.#open(slot)
    await runCommand('cp', ['-a', `${upper}/.`, copy.upper])
    return copy
  }
}

/** What Warren lays under each sandbox with a GPU, so that programs find the driver; and the counter. */
async function prepareUpper(
  upper: string,
  { process, slots, counter }: Pick<RawGpuOptions, 'process' | 'slots' | 'counter'>,
): Promise<void> {
  const libraryFolder = findLibraryFolder(
    (path) => ifPresentNow(() => statSync(join(slots[0].rootFolder, path)))?.isDirectory() ?? false,
  )
  for (const { path, target } of driverLinks(process.gpu.files, libraryFolder)) {
    await mkdir(join(upper, dirname(path)), { recursive: true })
    await symlink(target, join(upper, path))
  }
  await mkdir(join(upper, dirname(counterFile!)), { recursive: true })
  await chmod(join(upper, dirname(counterFile!)), 0o1777)
  await writeFile(join(upper, counterFile!), counter)
}

async function restore(
  bundle: Bundle,
  memory: string,
  { network }: RawSlot,
  ...options: string[]
): Promise<void> {
  await bundle.restore(memory, ...options)
  // Until then the GPU does not have its memory back.
  await bundle.awaitRestore()
  await untilHealthy(network.address)
}

const countOf = async ({ upper }: Bundle): Promise<number> =>
  parseCount(await readFile(join(upper, countFile!), 'utf8').catch(() => ''))

const untilCounts = (bundle: Bundle, above: number): Promise<void> => untilAbove(() => countOf(bundle), above)

/** What the counter wrote; 0 if it has not begun. Throws if its memory is not what it was. */
export function parseCount(text: string): number {
  if (text.startsWith('failed')) throw new Error(`the counter ${text}`)
  const [count = '', whole] = text.split(' ')
  if (whole !== undefined && whole !== 'True') throw new Error('the memory of the counter changed')
  return Number(count)
}

export async function untilAbove(read: () => Promise<number>, above: number): Promise<void> {
  const deadline = performance.now() + 120_000
  while (!((await read()) > above)) {
    if (performance.now() > deadline) throw new Error(`the counter does not count beyond ${above}`)
    await delay(20)
  }
}
