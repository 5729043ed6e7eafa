/**
 * What benchmarks run on: Warrens, Docker and a network for runtimes started by hand, all on the same root
 * filesystem. Each is made on first use and taken down at the end, also after Ctrl-C.
 */
import { readdirSync, statSync } from 'node:fs'
import { availableParallelism } from 'node:os'
import { basename, join } from 'node:path'
import { errorText } from '../../src/lib/app-error.ts'
import { withDeadline } from '../../src/lib/deadline.ts'
import { trustSettings } from '../support/host-authorities.ts'
import { type Isolation, noWarmPool, startWarren, testPlace, type Warren } from '../support/warren.ts'
import type { ContainerEngine } from './contenders/container-engine.ts'
import { startDocker } from './contenders/docker.ts'
import { type NetworkNamespace, openNetworkNamespace } from './contenders/network-namespace.ts'
import { startPodman } from './contenders/podman.ts'
import { shareTemplates, workSettings, workWarren } from './contenders/work-root.ts'

/**
 * Cold: without a warm pool. Trusting: its sandboxes trust what this machine does, so that they can install. GPU: its
 * sandboxes may have the machine's GPU, four of them at once, and all CPUs, as what is started by hand has. Work: its base
 * template is the root of the benchmark `work`.
 */
export type WarrenMode = 'cold' | 'trusting' | 'gpu' | 'work'

type Settings = Record<string, string>

export type BenchMachine = {
  isolations: readonly Isolation[]
  signal: AbortSignal
  warren(isolation: Isolation, mode?: WarrenMode): Promise<Warren>
  /** One of another checkout, started by that one's launcher. */
  earlierWarren(isolation: Isolation, program: string, mode?: 'cold'): Promise<Warren>
  /** One that remembers nothing and has made nothing ahead, for as long as the work takes. One of them at a time. */
  withNewWarren<T>(isolation: Isolation, work: (warren: Warren) => Promise<T>): Promise<T>
  /** The root folder of the base template. */
  rootFolder(mode?: WarrenMode): Promise<string>
  /** Undefined where Docker is not wanted or cannot start. */
  docker(): Promise<ContainerEngine | undefined>
  /** A Docker of its own with another root. */
  dockerOn(rootFolder: string): Promise<ContainerEngine | undefined>
  /** Docker and podman, as far as they are wanted and can start. */
  engines(): Promise<ContainerEngine[]>
  /** A network namespace of its own for each number. */
  network(number?: number): Promise<NetworkNamespace>
  say(text: string): void
  close(): Promise<void>
}

export type BenchMachineOptions = { isolations: readonly Isolation[]; docker: boolean; signal: AbortSignal }

/** Apart from those of the tests, and in each place others, so that all may run at once: a half for each isolation. */
const subnetOf = (isolation: Isolation, number: number): string =>
  `10.${number - 10 * testPlace}.${isolation === 'gvisor' ? 128 : 0}.0/17`

/** A server of its own for each mode, which starts with nothing in its database. */
const modes: Record<
  'warm' | 'new' | 'earlier' | 'earlier-cold' | WarrenMode,
  { name: string; number: number; settings?: () => Settings }
> = {
  warm: { name: 'bench', number: 219 },
  cold: { name: 'bench-cold', number: 220, settings: () => noWarmPool },
  trusting: { name: 'bench-trusting', number: 221, settings: trustSettings },
  new: { name: 'bench-new', number: 222 },
  work: { name: workWarren, number: 218, settings: workSettings },
  gpu: { name: 'bench-gpu', number: 223, settings: gpuSettings },
  // With numbers of modes that no benchmark uses beside them.
  earlier: { name: 'bench-earlier', number: 222 },
  'earlier-cold': { name: 'bench-earlier-cold', number: 223, settings: () => noWarmPool },
}

function gpuSettings(): Settings {
  const cpuCount = String(Math.max(1, availableParallelism() & ~1))
  return {
    ...noWarmPool,
    WARREN_GPUS: 'all',
    WARREN_GPU_SHARE: '4',
    WARREN_DEFAULT_CPU: cpuCount,
    WARREN_MAX_CPU: cpuCount,
    WARREN_DEFAULT_MEMORY_MB: '8192',
    // The machines with cards of our trials have no network to fetch a base from.
    ...(process.env.WARREN_BASE_IMAGE && { WARREN_BASE_IMAGE: process.env.WARREN_BASE_IMAGE }),
  }
}

function startFor(isolation: Isolation, mode: keyof typeof modes, program?: string): Promise<Warren> {
  const { name, number, settings } = modes[mode]
  if (mode === 'work') shareTemplates(isolation)
  return startWarren(isolation, {
    name,
    portOffset: number - 169,
    ...(program !== undefined && { program }),
    settings: {
      // The benchmark of templates has its registry there.
      WARREN_PRIVATE_REGISTRIES: '127.0.0.1',
      WARREN_SUBNET: subnetOf(isolation, number),
      ...settings?.(),
    },
  })
}

export function openBenchMachine(options: BenchMachineOptions): BenchMachine {
  const made: { name: string; close: () => Promise<unknown> }[] = []
  const things = new Map<string, Promise<unknown>>()
  const once = <T>(
    name: string,
    make: () => Promise<T>,
    close: (thing: T) => Promise<unknown>,
  ): Promise<T> => {
    const known = things.get(name) as Promise<T> | undefined
    if (known) return known
    say(`Starting ${name} …`)
    const thing = make()
    things.set(name, thing)
    // Taken down even when Ctrl-C came while it was being made.
    made.push({ name, close: () => thing.then(close, () => undefined) })
    return thing
  }
  const startEngine = (name: string, start: typeof startDocker, rootFolder: string) =>
    once(
      name,
      () => start(rootFolder).catch((error) => leaveOut(name, error)),
      async (engine) => engine?.close(),
    )
  const machine: BenchMachine = {
    ...options,
    say,
    warren: (isolation, mode) => {
      const name = `Warren (${[isolation, mode].filter(Boolean).join(', ')})`
      return once(name, () => startFor(isolation, mode ?? 'warm'), stopWarren)
    },
    earlierWarren: (isolation, program, mode) => {
      const kind = mode === 'cold' ? 'earlier-cold' : 'earlier'
      return once(`Warren (${isolation}, ${kind})`, () => startFor(isolation, kind, program), stopWarren)
    },
    async withNewWarren(isolation, work) {
      const warren = await startFor(isolation, 'new')
      try {
        return await work(warren)
      } finally {
        await stopWarren(warren)
      }
    },
    rootFolder: async (mode) => baseRoot(await machine.warren(options.isolations[0]!, mode)),
    network: (number = 0) =>
      once(
        `network namespace ${number}`,
        () => openNetworkNamespace(number),
        (network) => network.close(),
      ),
    docker: async () => (await machine.engines()).find(({ name }) => name === 'docker'),
    dockerOn: async (rootFolder) =>
      options.docker ? startEngine(`Docker on ${basename(rootFolder)}`, startDocker, rootFolder) : undefined,
    async engines() {
      if (!options.docker) return []
      const rootFolder = await machine.rootFolder()
      const started = [
        await startEngine('Docker', startDocker, rootFolder),
        await startEngine('podman', startPodman, rootFolder),
      ]
      return started.filter((engine) => engine !== undefined)
    },
    async close() {
      for (const { name, close } of made.reverse()) {
        await withDeadline(120_000, `${name} does not stop`, close).catch((error) => say(errorText(error)))
      }
    },
  }
  return machine
}

function leaveOut(name: string, error: unknown): undefined {
  say(`${name} is left out: ${errorText(error)}`)
}

function say(text: string): void {
  process.stderr.write(`${text}\n`)
}

/** The one of the last start: older recipes leave theirs behind. */
function baseRoot({ dataFolder }: Warren): string {
  const templates = join(dataFolder, 'templates')
  const made = (folder: string) => statSync(folder).birthtimeMs
  const roots = readdirSync(templates)
    .filter((name) => /^base-[0-9a-f]+$/.test(name))
    .map((name) => join(templates, name))
    .sort((a, b) => made(b) - made(a))
  if (!roots[0]) throw new Error(`there is no base template in ${templates}`)
  return roots[0]
}

/** Sandboxes would live on without their Warren. */
async function stopWarren(warren: Warren): Promise<void> {
  const response = await warren.api('/v2/sandboxes')
  const running = (await response.json()) as { sandboxID: string }[]
  await Promise.all(
    running.map(({ sandboxID }) => warren.api(`/sandboxes/${sandboxID}`, { method: 'DELETE' })),
  )
  await withDeadline(60_000, 'Warren does not stop', () => warren.stop()).catch(() => warren.crash())
}
