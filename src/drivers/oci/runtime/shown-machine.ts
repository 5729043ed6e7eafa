/**
 * The machine as a sandbox under runc sees it: files that are mounted over the host's own in /proc, and a
 * small read-only /sys. gVisor provides its own and needs none of it.
 */
import { closeSync, constants, existsSync, ftruncateSync, openSync, readFileSync, writeSync } from 'node:fs'
import { mkdir, rename, rm, writeFile } from 'node:fs/promises'
import { uptime } from 'node:os'
import { join } from 'node:path'
import { systemClock } from '../../../lib/clock.ts'

/** The only names under /proc over which runc allows a mount. */
export const shownProcFiles = ['meminfo', 'cpuinfo', 'stat', 'loadavg', 'swaps'] as const

/** Each boot has its own. runc does not mount over this name, so a program of ours does. */
export const bootIDName = 'boot_id'

type MachineState = {
  cpuCount: number
  memoryBytes: number
  memoryUsedBytes: number
  memoryCacheBytes: number
  cpuTimeMs: number
}

type ProcFile = (typeof shownProcFiles)[number]

/**
 * Overwrites in place without truncating first: the sandbox has the files mounted, and a reader finds them
 * complete. Synchronous: the files are in memory, and waiting for another thread four times for each would
 * take many times the CPU.
 */
export function writeProcFiles(folder: string, state: MachineState): void {
  for (const name of shownProcFiles) {
    const text = procFile[name](state)
    const file = openSync(join(folder, name), constants.O_WRONLY | constants.O_CREAT, 0o644)
    try {
      writeSync(file, text, 0)
      ftruncateSync(file, Buffer.byteLength(text))
    } finally {
      closeSync(file)
    }
  }
}

/**
 * Traits that programs read before they use a CPU, and could ask the CPU itself; not its position among the
 * host's.
 */
const cpuTraits = new Set([
  'vendor_id',
  'cpu family',
  'model',
  'model name',
  'stepping',
  'cache size',
  'fpu',
  'cpuid level',
  'flags',
  'bogomips',
  'clflush size',
  'cache_alignment',
  'address sizes',
  'BogoMIPS',
  'Features',
  'CPU implementer',
  'CPU architecture',
  'CPU variant',
  'CPU part',
  'CPU revision',
])
let cpuTraitRows: [string, string][] | undefined

/** The traits of the first CPU, in the kernel's order. */
function readCpuTraits(): [string, string][] {
  const [first = ''] = readFileSync('/proc/cpuinfo', 'utf8').split('\n\n', 1)
  const rows = first.split('\n').map((row): [string, string] => {
    const [name = '', value = ''] = row.split(/\s*:\s?/, 2)
    return [name, value]
  })
  return rows.filter(([name]) => cpuTraits.has(name))
}

const procFile: Record<ProcFile, (state: MachineState) => string> = {
  meminfo: ({ memoryBytes, memoryUsedBytes, memoryCacheBytes }) => {
    const free = Math.max(0, memoryBytes - memoryUsedBytes - memoryCacheBytes)
    const kB = (bytes: number) => Math.floor(bytes / 1024)
    const rows: [string, number][] = [
      ['MemTotal', kB(memoryBytes)],
      ['MemFree', kB(free)],
      ['MemAvailable', kB(free + memoryCacheBytes)],
      ['Buffers', 0],
      ['Cached', kB(memoryCacheBytes)],
      ['SwapCached', 0],
      ['Active', kB(memoryUsedBytes)],
      ['Inactive', kB(memoryCacheBytes)],
      ['SwapTotal', 0],
      ['SwapFree', 0],
      ['Dirty', 0],
      ['Writeback', 0],
      ['AnonPages', kB(memoryUsedBytes)],
      ['Mapped', 0],
      ['Shmem', 0],
      ['Slab', 0],
      ['SReclaimable', 0],
      ['SUnreclaim', 0],
      ['CommitLimit', kB(memoryBytes)],
      ['Committed_AS', kB(memoryUsedBytes)],
    ]
    return rows.map(([name, value]) => `${`${name}:`.padEnd(16)}${String(value).padStart(8)} kB\n`).join('')
  },
  cpuinfo: ({ cpuCount }) => {
    cpuTraitRows ??= readCpuTraits()
    const traits = cpuTraitRows
    const one = (n: number) =>
      [
        ['processor', n],
        ...traits,
        ['physical id', 0],
        ['siblings', cpuCount],
        ['core id', n],
        ['cpu cores', cpuCount],
      ]
        .map(([name, value]) => `${String(name).padEnd(16)}: ${value}\n`)
        .join('')
    return Array.from({ length: cpuCount }, (_, n) => `${one(n)}\n`).join('')
  },
  stat: ({ cpuCount, cpuTimeMs }) => {
    const ticks = Math.round(cpuTimeMs / 10)
    const row = (name: string, used: number) => `${name} ${used} 0 0 0 0 0 0 0 0 0\n`
    const each = Array.from({ length: cpuCount }, (_, n) => row(`cpu${n}`, Math.round(ticks / cpuCount)))
    // Programs add the start times of processes to it, which the kernel counts from the boot of the machine.
    const bootedAt = Math.round(systemClock.now() / 1000 - uptime())
    return `${row('cpu ', ticks)}${each.join('')}intr 0\nctxt 0\nbtime ${bootedAt}\nprocesses 1\nprocs_running 1\nprocs_blocked 0\n`
  },
  loadavg: () => '0.00 0.00 0.00 1/1 1\n',
  swaps: () => 'Filename\t\t\t\tType\t\tSize\t\tUsed\t\tPriority\n',
}

/** Shared by all sandboxes with the same number of CPUs, so it contains nothing else. */
export async function makeSysSkeleton(folder: string, cpuCount: number): Promise<void> {
  if (existsSync(folder)) return
  const making = `${folder}.making`
  await rm(making, { recursive: true, force: true })
  const cpu = join(making, 'devices', 'system', 'cpu')
  const empty = ['block', 'bus', 'class', 'dev', 'firmware', 'fs/cgroup', 'kernel', 'module', 'power']
  for (const name of empty) await mkdir(join(making, name), { recursive: true })
  await mkdir(cpu, { recursive: true })
  for (let n = 0; n < cpuCount; n++) await mkdir(join(cpu, `cpu${n}`))
  const all = cpuCount === 1 ? '0\n' : `0-${cpuCount - 1}\n`
  for (const name of ['online', 'possible', 'present']) await writeFile(join(cpu, name), all)
  await rename(making, folder).catch(async (error: NodeJS.ErrnoException) => {
    await rm(making, { recursive: true, force: true })
    if (error.code !== 'ENOTEMPTY' && error.code !== 'EEXIST') throw error
  })
}
