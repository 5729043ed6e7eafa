/** Cgroups as the runtime made them, version 1, 2, or both side by side: read, emptied and removed, not configured. */
import { existsSync, readFileSync } from 'node:fs'
import { mkdir, readFile, rmdir, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { AppError } from '../../lib/app-error.ts'
import { delay } from '../../lib/clock.ts'

export type CgroupUse = {
  cpuTimeMs: number
  memoryUsedBytes: number
  /** The part of the used that is shared memory. */
  memorySharedBytes: number
  memoryCacheBytes: number
}

const freezeLimitMs = 10_000

export type Cgroups = {
  /** True where the controller can limit a sandbox here. */
  has(controller: string): boolean
  pids(path: string): Promise<number[]>
  /** Kills everything in the group, waits until it is empty, and removes it. Not there is success. */
  end(path: string, signal?: AbortSignal): Promise<void>
  use(path: string): Promise<CgroupUse>
  /** Resolves when every process in the group stands still. */
  freeze(path: string): Promise<void>
  thaw(path: string): Promise<void>
  /** Lifts the memory limit of a running group. */
  raiseMemory(path: string, bytes: number): Promise<void>
  /** Swap is counted here, so a limit on it can be set. */
  countsSwap: boolean
  /** Makes the group above the sandboxes' own. */
  makeParent(path: string): Promise<void>
  /** Removes a group that must be empty; otherwise it stays. */
  removeIfEmpty(path: string): Promise<void>
}

export function openCgroups(mountinfo = readFileSync('/proc/self/mountinfo', 'utf8')): Cgroups {
  const v1 = new Map<string, string>()
  let v2: string | undefined
  for (const line of mountinfo.split('\n')) {
    const [before, after] = line.split(' - ')
    const point = before?.split(' ')[4]
    const [type, , options] = after?.split(' ') ?? []
    if (!point) continue
    if (type === 'cgroup2') v2 ??= point
    if (type === 'cgroup')
      for (const option of options?.split(',') ?? []) v1.set(option, v1.get(option) ?? point)
  }
  const pure = !v1.has('memory') && !v1.has('cpu') ? v2 : undefined
  const mounts = pure ? [pure] : [...new Set([...v1.values(), ...(v2 ? [v2] : [])])].filter(isCgroupMount)
  const offered = pure
    ? readFileSync(join(pure, 'cgroup.controllers'), 'utf8').trim().split(' ')
    : [...v1.keys()]

  const file = (controller: string, path: string, name: string) =>
    join(pure ?? v1.get(controller) ?? v2 ?? '/sys/fs/cgroup', path, name)

  async function pids(path: string): Promise<number[]> {
    const lists = await Promise.all(
      mounts.map((mount) => readFile(join(mount, path, 'cgroup.procs'), 'utf8').catch(() => '')),
    )
    return [...new Set(lists.join('\n').split('\n').filter(Boolean).map(Number))]
  }

  async function end(path: string, signal?: AbortSignal): Promise<void> {
    for (let waitedMs = 0; ; ) {
      const left = await pids(path)
      if (left.length === 0) break
      for (const pid of left) killNow(pid)
      // Version 1 delivers no signal to what is frozen.
      await thaw(path).catch(() => {})
      if (waitedMs > 10_000) {
        throw new AppError(
          'unavailable',
          `Processes ${left.join(', ')} of ${path} do not die; try again later.`,
        )
      }
      const pauseMs = waitedMs < 20 ? 1 : 10
      await delay(pauseMs, signal)
      waitedMs += pauseMs
    }
    await Promise.all(mounts.map((mount) => removeGroup(join(mount, path))))
  }

  async function use(path: string): Promise<CgroupUse> {
    const [cpu, used, stat] = await Promise.all([
      readFile(pure ? file('cpu', path, 'cpu.stat') : file('cpuacct', path, 'cpuacct.usage'), 'utf8'),
      readFile(file('memory', path, pure ? 'memory.current' : 'memory.usage_in_bytes'), 'utf8'),
      readFile(file('memory', path, 'memory.stat'), 'utf8'),
    ])
    const field = (text: string, name: string) =>
      Number(new RegExp(`^${name} (\\d+)$`, 'm').exec(text)?.[1] ?? 0)
    // Shared memory counts as cache in the kernel's books, yet nothing can drop it.
    const memorySharedBytes = field(stat, pure ? 'shmem' : 'total_shmem')
    const cached = field(stat, pure ? 'file' : 'total_cache')
    const memoryCacheBytes = Math.max(0, cached - memorySharedBytes)
    return {
      cpuTimeMs: Math.round(pure ? field(cpu, 'usage_usec') / 1e3 : Number(cpu) / 1e6),
      memoryUsedBytes: Math.max(0, Number(used) - memoryCacheBytes),
      memorySharedBytes,
      memoryCacheBytes,
    }
  }

  const setFrozen = (path: string, frozen: boolean) =>
    pure
      ? writeFile(join(pure, path, 'cgroup.freeze'), frozen ? '1' : '0')
      : writeFile(file('freezer', path, 'freezer.state'), frozen ? 'FROZEN' : 'THAWED')

  async function isFrozen(path: string): Promise<boolean> {
    if (pure) return /^frozen 1$/m.test(await readFile(join(pure, path, 'cgroup.events'), 'utf8'))
    return (await readFile(file('freezer', path, 'freezer.state'), 'utf8')).trim() === 'FROZEN'
  }

  async function freeze(path: string): Promise<void> {
    await setFrozen(path, true)
    for (let waitedMs = 0; !(await isFrozen(path)); waitedMs++) {
      if (waitedMs > freezeLimitMs) {
        await setFrozen(path, false)
        throw new AppError('unavailable', `Processes of ${path} do not stand still; try again later.`)
      }
      await delay(1)
    }
  }

  const thaw = (path: string) => setFrozen(path, false)

  const swapFile = file('memory', '/', 'memory.memsw.limit_in_bytes')

  async function raiseMemory(path: string, bytes: number): Promise<void> {
    // Version 1 wants the limit with swap first: it may never be the smaller one.
    if (!pure && existsSync(swapFile)) {
      await writeFile(file('memory', path, 'memory.memsw.limit_in_bytes'), String(bytes))
    }
    await writeFile(file('memory', path, pure ? 'memory.max' : 'memory.limit_in_bytes'), String(bytes))
  }

  /** Version 1 gives a new cpuset no CPUs, and runsc does not fill in the parent's. */
  async function makeParent(path: string): Promise<void> {
    const cpuset = v1.get('cpuset')
    if (pure || !cpuset) return
    await mkdir(join(cpuset, path), { recursive: true })
    for (const name of ['cpuset.cpus', 'cpuset.mems']) {
      await writeFile(join(cpuset, path, name), await readFile(join(cpuset, name), 'utf8'))
    }
  }

  return {
    makeParent,
    raiseMemory,
    countsSwap: pure !== undefined || existsSync(swapFile),
    has: (controller) => offered.includes(controller),
    pids,
    end,
    use,
    freeze,
    thaw,
    removeIfEmpty: async (path) => {
      await Promise.all(mounts.map((mount) => rmdir(join(mount, path)).catch(() => {})))
    },
  }
}

function isCgroupMount(point: string): boolean {
  return point.startsWith('/sys/fs/cgroup')
}

export function killNow(pid: number): void {
  try {
    process.kill(pid, 'SIGKILL')
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'ESRCH') throw error
  }
}

/** A group whose last process has just died can say EBUSY for an instant. */
async function removeGroup(folder: string): Promise<void> {
  for (let attempt = 0; ; attempt++) {
    try {
      return await rmdir(folder)
    } catch (error) {
      const code = (error as NodeJS.ErrnoException).code
      if (code === 'ENOENT') return
      if (code !== 'EBUSY' || attempt > 200) throw error
      await delay(attempt < 20 ? 1 : 10)
    }
  }
}
