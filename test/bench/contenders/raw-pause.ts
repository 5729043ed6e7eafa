/** `runsc checkpoint` and `runsc restore` by hand: what a pause, a resume and a fork cost with nothing around. */
import { mkdir, readFile, rm } from 'node:fs/promises'
import { join } from 'node:path'
import { delay } from '../../../src/lib/clock.ts'
import { runCommand } from '../../../src/lib/run-command.ts'
import { cacheFolder } from '../../support/warren.ts'
import { timed } from '../measure.ts'
import { type Bundle, openBundle, type RawPlace, untilHealthy } from './raw-runtime.ts'
import type { ContainerProcess } from './raw-spec.ts'

export type RawPause = {
  /** A checkpoint after which the sandbox goes on, and restores from it, all at once, until every agent answers. */
  fork(): Promise<number>
  /** A checkpoint after which the sandbox is gone. */
  pause(): Promise<number>
  /** A restore, until the agent answers. */
  resume(): Promise<number>
  close(): Promise<void>
}

export type RawPauseOptions = {
  process: ContainerProcess
  /** The first is for the sandbox itself, the others for its forks. */
  places: readonly [RawPlace, ...RawPlace[]]
  /** A file inside that is there as soon as the sandbox is as it should be. */
  readyFile: string
  /** True: what a pause has kept outlives a power cut, and nothing of it is in the page cache. */
  lasting: boolean
}

let made = 0

export async function openRawPause(options: RawPauseOptions): Promise<RawPause> {
  const { process, places, readyFile, lasting } = options
  const [place, ...forkPlaces] = places
  const folder = join(cacheFolder, `bench-raw-memory-${globalThis.process.pid}-${++made}`)
  const direct = lasting ? ['--direct'] : []
  const memoryOf = (name: string) => join(folder, name)
  const origin = await openBundle('raw-pause', place, process)
  const bundles: Bundle[] = [origin]
  const close = async () => {
    await Promise.all(bundles.splice(0).map((bundle) => bundle.close()))
    await rm(folder, { recursive: true, force: true })
  }

  async function copyOf(bundle: Bundle, at: RawPlace): Promise<Bundle> {
    const copy = await openBundle('raw-pause', at, process)
    bundles.push(copy)
    await runCommand('cp', ['-a', `${bundle.upper}/.`, copy.upper])
    return copy
  }

  async function fork(): Promise<number> {
    const memory = memoryOf('fork')
    const [savedMs] = await timed(() => origin.checkpoint(memory, '--leave-running'))
    const forks = await Promise.all(forkPlaces.map((at) => copyOf(origin, at)))
    const [startedMs] = await timed(() =>
      Promise.all(forks.map((one, at) => restored(one, memory, forkPlaces[at]!))),
    )
    await Promise.all(forks.map((one) => one.close()))
    await rm(memory, { recursive: true })
    return savedMs + startedMs
  }

  async function pause(): Promise<number> {
    const memory = memoryOf('pause')
    const [ms] = await timed(async () => {
      await origin.checkpoint(memory, ...direct)
      if (lasting) await runCommand('sync', [memory, ...memoryFiles.map((name) => join(memory, name))])
    })
    return ms
  }

  async function resume(): Promise<number> {
    const copy = await copyOf(origin, place)
    const [ms] = await timed(() => restored(copy, memoryOf('pause'), place, ...direct))
    const pid = await readFile(join(copy.upper, readyFile), 'utf8')
    await copy.exec(['test', '-d', `/proc/${pid}`])
    return ms
  }

  try {
    await mkdir(folder, { recursive: true })
    await origin.run('--detach')
    await untilHealthy(place.wire.address)
    await untilThere(join(origin.upper, readyFile))
  } catch (error) {
    await close()
    throw error
  }
  return { fork, pause, resume, close }
}

const memoryFiles = ['checkpoint.img', 'pages.img', 'pages_meta.img']

async function restored(
  bundle: Bundle,
  memory: string,
  { wire }: RawPlace,
  ...options: string[]
): Promise<void> {
  await bundle.restore(memory, ...options)
  await untilHealthy(wire.address)
}

async function untilThere(path: string): Promise<void> {
  const deadline = performance.now() + 60_000
  while (!(await readFile(path, 'utf8').catch(() => ''))) {
    if (performance.now() > deadline) throw new Error(`${path} does not appear`)
    await delay(20)
  }
}
