/**
 * Reads, empties and removes the cgroups that the runtime made, of version 1, version 2, or both side by side. Files that
 * the kernel answers from memory use synchronous I/O: a trip through the thread pool takes many times as long.
 */
import { existsSync, readFileSync, writeFileSync } from 'node:fs'
import { mkdir, readFile, rmdir, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { AppError } from '../../../lib/app-error.ts'
import { delay } from '../../../lib/clock.ts'
import { isMissing } from '../../../lib/if-present.ts'
import { type CgroupMounts, findCgroupMounts } from './cgroup-mounts.ts'
import { untilKilled } from './kill-processes.ts'

export type CgroupUse = {
  cpuTimeMs: number
  memoryUsedBytes: number
  /** The part of the used memory that is shared memory. */
  memorySharedBytes: number
  memoryCacheBytes: number
}

/** Without a limit, version 1 shows a number above this one, and version 2 shows a word. */
const noLimitBytes = 2 ** 50
/** Maximum number of tries to freeze a group. Each takes a millisecond or more. */
const maxFreezeTries = 10_000
const triesUntilThaw = 50

export function openCgroups(mountinfo = readFileSync('/proc/self/mountinfo', 'utf8')): Cgroups {
  return new Cgroups(findCgroupMounts(mountinfo))
}

/** A group's name is its path below the mount of a hierarchy. */
export class Cgroups {
  readonly #mounts: CgroupMounts
  readonly #swapFile: string
  /** True if the kernel counts swap per group, so that it can be limited. */
  readonly countsSwap: boolean

  constructor(mounts: CgroupMounts) {
    this.#mounts = mounts
    this.#swapFile = mounts.file('memory', '/', 'memory.memsw.limit_in_bytes')
    this.countsSwap = mounts.unified || existsSync(this.#swapFile)
  }

  /** True if this machine has the controller, so that it can limit sandboxes. */
  has(controller: string): boolean {
    return this.#mounts.controllers.includes(controller)
  }

  /** Empty only if no hierarchy has a process in the group; rejects if a hierarchy cannot be read. */
  async pids(group: string): Promise<number[]> {
    return pidsIn(this.#mounts.all.map((mount) => readGroupFile(join(mount, group, 'cgroup.procs'))))
  }

  /**
   * Processes of the first hierarchy that has any. A killed process leaves every hierarchy, so the next call finds the
   * others. Version 1 has a dozen hierarchies, and a kill calls this repeatedly. Empty only if no hierarchy has a process
   * in the group.
   */
  #nextPids(group: string): number[] {
    for (const mount of this.#mounts.all) {
      const pids = pidsIn([readGroupFile(join(mount, group, 'cgroup.procs'))])
      if (pids.length > 0) return pids
    }
    return []
  }

  /** Kills every process in the group and removes the group. A missing group is success. */
  async end(group: string, signal?: AbortSignal): Promise<void> {
    await this.kill(group, signal)
    await this.remove(group)
  }

  /** Kills every process in the group and waits until the group is empty. A missing group is success. */
  async kill(group: string, signal?: AbortSignal): Promise<void> {
    await this.#killAtOnce(group)
    const search = {
      find: async () => this.#nextPids(group),
      confirm: (pids: readonly number[]) => {
        const there = new Set(this.#nextPids(group))
        return pids.filter((pid) => there.has(pid))
      },
    }
    // Version 1 delivers no signal to a frozen process. If the thaw fails, the processes stay and the kill reports them.
    const afterKill = () => this.thaw(group).catch(() => {})
    await untilKilled(`Processes of ${group}`, search, { afterKill, ...(signal && { signal }) })
  }

  /** Removes a group that has no processes. A missing group is success. */
  async remove(group: string): Promise<void> {
    await Promise.all(this.#mounts.all.map((mount) => removeGroup(join(mount, group))))
  }

  /** Linux 5.14 and newer kill a whole group of version 2, including processes that are being forked. */
  async #killAtOnce(group: string): Promise<void> {
    if (this.#mounts.v2 === undefined) return
    const file = join(this.#mounts.v2, group, 'cgroup.kill')
    ifThere(() => writeFileSync(file, '1', { flag: 'r+' }))
  }

  async use(group: string): Promise<CgroupUse> {
    const { unified, file } = this.#mounts
    const [cpu, used, stat] = await Promise.all([
      readFile(unified ? file('cpu', group, 'cpu.stat') : file('cpuacct', group, 'cpuacct.usage'), 'utf8'),
      readFile(file('memory', group, unified ? 'memory.current' : 'memory.usage_in_bytes'), 'utf8'),
      readFile(file('memory', group, 'memory.stat'), 'utf8'),
    ])
    const { memorySharedBytes, memoryCacheBytes } = this.#cache(stat)
    return {
      cpuTimeMs: Math.round(unified ? field(cpu, 'usage_usec') / 1e3 : Number(cpu) / 1e6),
      memoryUsedBytes: Math.max(0, Number(used) - memoryCacheBytes),
      memorySharedBytes,
      memoryCacheBytes,
    }
  }

  #cache(stat: string): Pick<CgroupUse, 'memorySharedBytes' | 'memoryCacheBytes'> {
    const { unified } = this.#mounts
    // The kernel counts shared memory as cache, although it cannot drop it.
    const memorySharedBytes = field(stat, unified ? 'shmem' : 'total_shmem')
    const cached = field(stat, unified ? 'file' : 'total_cache')
    return { memorySharedBytes, memoryCacheBytes: Math.max(0, cached - memorySharedBytes) }
  }

  /** Memory in use without droppable cache, and the limit. Undefined if the group is gone or has no limit yet. */
  memory(group: string): { usedBytes: number; limitBytes: number } | undefined {
    const { unified, file } = this.#mounts
    const names = unified
      ? ['memory.current', 'memory.max', 'memory.stat']
      : ['memory.usage_in_bytes', 'memory.limit_in_bytes', 'memory.stat']
    const [used, limit, stat] = names.map((name) => readGroupFile(file('memory', group, name)))
    const limitBytes = Number(limit)
    if (used === undefined || stat === undefined || !(limitBytes < noLimitBytes)) return undefined
    return { usedBytes: Math.max(0, Number(used) - this.#cache(stat).memoryCacheBytes), limitBytes }
  }

  /** Bytes that the group's processes have written to files and that are not on disk yet; 0 if the group is gone. */
  unwrittenBytes(group: string): number {
    const { unified, file } = this.#mounts
    const stat = readGroupFile(file('memory', group, 'memory.stat')) ?? ''
    const names = unified ? ['file_dirty', 'file_writeback'] : ['total_dirty', 'total_writeback']
    return names.reduce((total, name) => total + field(stat, name), 0)
  }

  /** Number of the group's processes that the kernel has killed for lack of memory; 0 if the group is gone. */
  async memoryKills(group: string): Promise<number> {
    const { unified, file } = this.#mounts
    const text = readGroupFile(file('memory', group, unified ? 'memory.events' : 'memory.oom_control'))
    return field(text ?? '', 'oom_kill')
  }

  /** How often the kernel refused the group a new process or thread; 0 if the group is gone. */
  async forkRefusals(group: string): Promise<number> {
    return field(readGroupFile(this.#mounts.file('pids', group, 'pids.events')) ?? '', 'max')
  }

  /**
   * Resolves when every process in the group is frozen. Version 1 can miss a process that is just starting and then never
   * finishes. So the freeze is repeated, and now and then the group is thawed for a moment first. After an abort every
   * process runs.
   */
  async freeze(group: string, signal?: AbortSignal): Promise<void> {
    for (let tries = 1; ; tries++) {
      await this.#setFrozen(group, true)
      if (await this.#isFrozen(group)) return
      if (tries > maxFreezeTries || signal?.aborted) break
      if (!this.#mounts.unified && tries % triesUntilThaw === 0) await this.#setFrozen(group, false)
      await delay(1)
    }
    await this.#setFrozen(group, false)
    signal?.throwIfAborted()
    throw new AppError('unavailable', `Processes of ${group} cannot be frozen; try again later.`)
  }

  thaw(group: string): Promise<void> {
    return this.#setFrozen(group, false)
  }

  async #setFrozen(group: string, frozen: boolean): Promise<void> {
    const { unified, file } = this.#mounts
    if (unified) writeFileSync(file('freezer', group, 'cgroup.freeze'), frozen ? '1' : '0')
    else writeFileSync(file('freezer', group, 'freezer.state'), frozen ? 'FROZEN' : 'THAWED')
  }

  async #isFrozen(group: string): Promise<boolean> {
    const { unified, file } = this.#mounts
    if (unified) return field(await readFile(file('freezer', group, 'cgroup.events'), 'utf8'), 'frozen') === 1
    return (await readFile(file('freezer', group, 'freezer.state'), 'utf8')).trim() === 'FROZEN'
  }

  /** Gives a group the default share of the CPUs. */
  async restoreShares(group: string): Promise<void> {
    const { unified, file } = this.#mounts
    if (!this.has('cpu')) return
    writeFileSync(file('cpu', group, unified ? 'cpu.weight' : 'cpu.shares'), unified ? '100' : '1024')
  }

  /** Raises the memory limit of a running group. */
  async raiseMemory(group: string, bytes: number): Promise<void> {
    const { unified, file } = this.#mounts
    // Version 1 rejects a memory limit above the limit with swap, so the limit with swap is raised first.
    if (!unified && this.countsSwap) {
      writeFileSync(file('memory', group, 'memory.memsw.limit_in_bytes'), String(bytes))
    }
    writeFileSync(file('memory', group, unified ? 'memory.max' : 'memory.limit_in_bytes'), String(bytes))
  }

  /** The new limit must be above the memory in use: if it is below, the kernel kills processes of the group. */
  async lowerMemory(group: string, bytes: number): Promise<void> {
    const { unified, file } = this.#mounts
    writeFileSync(file('memory', group, unified ? 'memory.max' : 'memory.limit_in_bytes'), String(bytes))
    if (!unified && this.countsSwap) {
      writeFileSync(file('memory', group, 'memory.memsw.limit_in_bytes'), String(bytes))
    }
  }

  /**
   * Limits the memory of all groups below this one together. When they would exceed the limit, the kernel kills one of
   * their processes and no other process. Null: no limit. Returns false if they already use more; the old limit then stays.
   */
  async limitMemory(group: string, bytes: number | null): Promise<boolean> {
    const { unified, file } = this.#mounts
    const path = file('memory', group, unified ? 'memory.max' : 'memory.limit_in_bytes')
    if (bytes === null && !existsSync(path)) return true
    await mkdir(file('memory', group, ''), { recursive: true })
    if (unified && !existsSync(path)) await this.#enableMemory(group)
    const none = unified ? 'max' : '-1'
    try {
      // Asynchronous, because the kernel reclaims memory before it accepts a lower limit, which takes time.
      await writeFile(path, bytes === null ? none : String(bytes), { flag: 'r+' })
      return true
    } catch (error) {
      if ((error as NodeJS.ErrnoException).code === 'EBUSY') return false
      throw error
    }
  }

  /** In version 2 a group has a controller's files only if every group above it enables that controller. */
  async #enableMemory(group: string): Promise<void> {
    const above = group.split('/').slice(0, -1)
    for (let count = 1; count <= above.length; count++) {
      const parent = above.slice(0, count).join('/') || '/'
      await writeFile(this.#mounts.file('memory', parent, 'cgroup.subtree_control'), '+memory')
    }
  }

  /**
   * Makes the parent group of the sandboxes where a cpuset needs it: version 1 gives a new cpuset no CPUs, and runsc does
   * not copy those of the parent.
   */
  async makeParent(group: string): Promise<void> {
    const { unified, file } = this.#mounts
    if (unified || !this.has('cpuset')) return
    await mkdir(file('cpuset', group, ''), { recursive: true })
    for (const name of ['cpuset.cpus', 'cpuset.mems']) {
      await writeFile(file('cpuset', group, name), await readFile(file('cpuset', '/', name), 'utf8'))
    }
  }

  /** Removes the group if it is empty. */
  async removeIfEmpty(group: string): Promise<void> {
    await Promise.all(this.#mounts.all.map((mount) => rmdir(join(mount, group)).catch(() => {})))
  }
}

const field = (text: string, name: string): number =>
  Number(new RegExp(`^${name} (\\d+)$`, 'm').exec(text)?.[1] ?? 0)

/**
 * Version 2 shows 0 for a process that ends while the kernel writes the list. The 0 must not reach `kill`, where it means
 * the caller's whole process group.
 */
const pidsIn = (lists: readonly (string | undefined)[]): number[] => [
  ...new Set(
    lists
      .flatMap((list) => (list ?? '').split('\n'))
      .map(Number)
      .filter((pid) => pid > 0),
  ),
]

/** Version 1 returns ENODEV for a group that is removed during the read. */
const isGone = (error: unknown): boolean =>
  isMissing(error) || (error as NodeJS.ErrnoException).code === 'ENODEV'

/** Undefined if the group does not exist. */
function ifThere<T>(work: () => T): T | undefined {
  try {
    return work()
  } catch (error) {
    if (isGone(error)) return undefined
    throw error
  }
}

const readGroupFile = (path: string): string | undefined => ifThere(() => readFileSync(path, 'utf8'))

/** A group whose last process has just died can return EBUSY for a moment. */
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
