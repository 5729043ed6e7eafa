/**
 * Cgroups as the runtime made them, version 1, 2, or both side by side: read, emptied and removed, not configured. What
 * the kernel answers from memory is read and written at once: to hand it to another thread takes many times as long.
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

/** Version 1 writes a number above this where there is no limit, version 2 a word. */
const noLimitBytes = 2 ** 50
/** A millisecond or more each. */
const mostFreezeTries = 10_000
const triesUntilThaw = 50

export function openCgroups(mountinfo = readFileSync('/proc/self/mountinfo', 'utf8')): Cgroups {
  return new Cgroups(findCgroupMounts(mountinfo))
}

/** Groups are named by their path below the mount of a hierarchy. */
export class Cgroups {
  readonly #mounts: CgroupMounts
  readonly #swapFile: string
  /** Swap is counted here, so a limit on it can be set. */
  readonly countsSwap: boolean

  constructor(mounts: CgroupMounts) {
    this.#mounts = mounts
    this.#swapFile = mounts.file('memory', '/', 'memory.memsw.limit_in_bytes')
    this.countsSwap = mounts.unified || existsSync(this.#swapFile)
  }

  /** True where the controller can limit a sandbox here. */
  has(controller: string): boolean {
    return this.#mounts.controllers.includes(controller)
  }

  /** Empty only when no hierarchy has a process in the group; rejects when that cannot be told. */
  async pids(group: string): Promise<number[]> {
    return pidsIn(this.#mounts.all.map((mount) => readGroupFile(join(mount, group, 'cgroup.procs'))))
  }

  /**
   * Those in the first hierarchy that has any: one that is killed leaves all of them, so the next look finds the others.
   * Empty only when no hierarchy has a process in the group. Version 1 has a dozen, and a kill looks again and again.
   */
  #nextPids(group: string): number[] {
    for (const mount of this.#mounts.all) {
      const pids = pidsIn([readGroupFile(join(mount, group, 'cgroup.procs'))])
      if (pids.length > 0) return pids
    }
    return []
  }

  /** Kills everything in the group, and removes it. Not there is success. */
  async end(group: string, signal?: AbortSignal): Promise<void> {
    await this.kill(group, signal)
    await this.remove(group)
  }

  /** Kills everything in the group, and waits until it is empty. Not there is success. */
  async kill(group: string, signal?: AbortSignal): Promise<void> {
    await this.#killAtOnce(group)
    const search = {
      find: async () => this.#nextPids(group),
      confirm: (pids: readonly number[]) => {
        const there = new Set(this.#nextPids(group))
        return pids.filter((pid) => there.has(pid))
      },
    }
    // Version 1 delivers no signal to what is frozen; a group that cannot be thawed is told by its processes.
    const afterKill = () => this.thaw(group).catch(() => {})
    await untilKilled(`Processes of ${group}`, search, { afterKill, ...(signal && { signal }) })
  }

  /** Removes a group that has no processes any more. Not there is success. */
  async remove(group: string): Promise<void> {
    await Promise.all(this.#mounts.all.map((mount) => removeGroup(join(mount, group))))
  }

  /** Linux 5.14 and newer kill a whole group of version 2, those included that are being forked. */
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
    // Shared memory counts as cache in the kernel's books, yet nothing can drop it.
    const memorySharedBytes = field(stat, unified ? 'shmem' : 'total_shmem')
    const cached = field(stat, unified ? 'file' : 'total_cache')
    return { memorySharedBytes, memoryCacheBytes: Math.max(0, cached - memorySharedBytes) }
  }

  /** What it uses without what the kernel can drop, and the most that it may use. Undefined: it is gone, or has no limit yet. */
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

  /** What its processes have written to files that has not reached the disk; 0 where the group is gone. */
  unwrittenBytes(group: string): number {
    const { unified, file } = this.#mounts
    const stat = readGroupFile(file('memory', group, 'memory.stat')) ?? ''
    const names = unified ? ['file_dirty', 'file_writeback'] : ['total_dirty', 'total_writeback']
    return names.reduce((total, name) => total + field(stat, name), 0)
  }

  /** How many processes of the group the kernel has killed for want of memory; 0 where the group is gone. */
  async memoryKills(group: string): Promise<number> {
    const { unified, file } = this.#mounts
    const text = readGroupFile(file('memory', group, unified ? 'memory.events' : 'memory.oom_control'))
    return field(text ?? '', 'oom_kill')
  }

  /** How often the group was refused another process or thread; 0 where the group is gone. */
  async forkRefusals(group: string): Promise<number> {
    return field(readGroupFile(this.#mounts.file('pids', group, 'pids.events')) ?? '', 'max')
  }

  /**
   * Resolves when every process in the group stands still. Version 1 may miss one that is just being started, and waits
   * for it then without end: it is told again, and now and then lets all run for a moment first. After an abort all of them
   * run.
   */
  async freeze(group: string, signal?: AbortSignal): Promise<void> {
    for (let tries = 1; ; tries++) {
      await this.#setFrozen(group, true)
      if (await this.#isFrozen(group)) return
      if (tries > mostFreezeTries || signal?.aborted) break
      if (!this.#mounts.unified && tries % triesUntilThaw === 0) await this.#setFrozen(group, false)
      await delay(1)
    }
    await this.#setFrozen(group, false)
    signal?.throwIfAborted()
    throw new AppError('unavailable', `Processes of ${group} do not stand still; try again later.`)
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

  /** Gives a group the same share of the CPUs as one for which nothing was set. */
  async restoreShares(group: string): Promise<void> {
    const { unified, file } = this.#mounts
    if (!this.has('cpu')) return
    writeFileSync(file('cpu', group, unified ? 'cpu.weight' : 'cpu.shares'), unified ? '100' : '1024')
  }

  /** Lifts the memory limit of a running group. */
  async raiseMemory(group: string, bytes: number): Promise<void> {
    const { unified, file } = this.#mounts
    // Version 1 wants the limit with swap first: it may never be the smaller one.
    if (!unified && this.countsSwap) {
      writeFileSync(file('memory', group, 'memory.memsw.limit_in_bytes'), String(bytes))
    }
    writeFileSync(file('memory', group, unified ? 'memory.max' : 'memory.limit_in_bytes'), String(bytes))
  }

  /** To more than is in use: whatever is beyond the limit ends the group's processes. */
  async lowerMemory(group: string, bytes: number): Promise<void> {
    const { unified, file } = this.#mounts
    writeFileSync(file('memory', group, unified ? 'memory.max' : 'memory.limit_in_bytes'), String(bytes))
    if (!unified && this.countsSwap) {
      writeFileSync(file('memory', group, 'memory.memsw.limit_in_bytes'), String(bytes))
    }
  }

  /**
   * Limits what all groups below this one use together, so that the kernel, when they would use more, ends one of their
   * processes and nobody else's. Null: no limit. False: they use more already, and go on under the limit that they had.
   */
  async limitMemory(group: string, bytes: number | null): Promise<boolean> {
    const { unified, file } = this.#mounts
    const path = file('memory', group, unified ? 'memory.max' : 'memory.limit_in_bytes')
    if (bytes === null && !existsSync(path)) return true
    await mkdir(file('memory', group, ''), { recursive: true })
    if (unified && !existsSync(path)) await this.#enableMemory(group)
    const none = unified ? 'max' : '-1'
    try {
      // Through another thread: the kernel first makes room for a lower limit, which takes its time.
      await writeFile(path, bytes === null ? none : String(bytes), { flag: 'r+' })
      return true
    } catch (error) {
      if ((error as NodeJS.ErrnoException).code === 'EBUSY') return false
      throw error
    }
  }

  /** In version 2 a group has the files of a controller only if all above it pass that on. */
  async #enableMemory(group: string): Promise<void> {
    const above = group.split('/').slice(0, -1)
    for (let count = 1; count <= above.length; count++) {
      const parent = above.slice(0, count).join('/') || '/'
      await writeFile(this.#mounts.file('memory', parent, 'cgroup.subtree_control'), '+memory')
    }
  }

  /**
   * Makes the group above the sandboxes' own where that is needed: version 1 gives a new cpuset no CPUs, and runsc
   * does not fill in the parent's.
   */
  async makeParent(group: string): Promise<void> {
    const { unified, file } = this.#mounts
    if (unified || !this.has('cpuset')) return
    await mkdir(file('cpuset', group, ''), { recursive: true })
    for (const name of ['cpuset.cpus', 'cpuset.mems']) {
      await writeFile(file('cpuset', group, name), await readFile(file('cpuset', '/', name), 'utf8'))
    }
  }

  /** Removes a group that must be empty; otherwise it stays. */
  async removeIfEmpty(group: string): Promise<void> {
    await Promise.all(this.#mounts.all.map((mount) => rmdir(join(mount, group)).catch(() => {})))
  }
}

const field = (text: string, name: string): number =>
  Number(new RegExp(`^${name} (\\d+)$`, 'm').exec(text)?.[1] ?? 0)

/**
 * Version 2 shows 0 in the place of a process that ends while the list is being written. It must not reach `kill`: there
 * it means the caller and its whole process group.
 */
const pidsIn = (lists: readonly (string | undefined)[]): number[] => [
  ...new Set(
    lists
      .flatMap((list) => (list ?? '').split('\n'))
      .map(Number)
      .filter((pid) => pid > 0),
  ),
]

/** Version 1 says ENODEV of a group that is removed while it is being read. */
const isGone = (error: unknown): boolean =>
  isMissing(error) || (error as NodeJS.ErrnoException).code === 'ENODEV'

/** Undefined: the group is not there. */
function ifThere<T>(work: () => T): T | undefined {
  try {
    return work()
  } catch (error) {
    if (isGone(error)) return undefined
    throw error
  }
}

const readGroupFile = (path: string): string | undefined => ifThere(() => readFileSync(path, 'utf8'))

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
