/** System calls of the thread that enters the namespaces of slots. Only that thread may import this: it unshares its importer. */
import { closeSync, openSync } from 'node:fs'
import { cpus } from 'node:os'
import type { CFunction } from '../../../lib/c-library.ts'
import { openNativeLibc } from '../../../lib/native.ts'

const libc = openNativeLibc('The namespaces of sandboxes cannot be entered')

/** CLONE_FS, CLONE_NEWNS and CLONE_NEWNET. */
const unshareFlags = { fileSystem: 0x200, mounts: 0x20000, network: 0x40000000 } as const
type Kind = 'mounts' | 'network'
const fileOf = { mounts: '/proc/thread-self/ns/mnt', network: '/proc/thread-self/ns/net' } as const

export const mountFlags = {
  readOnly: 1,
  noSetuid: 2,
  noDevices: 4,
  noAccessTimes: 1024,
  bind: 4096,
  move: 8192,
  recursive: 16384,
  private: 1 << 18,
  shared: 1 << 20,
} as const

/** Binds a function of the C library and throws if it returns a number below zero. */
export function kernelCall(prototype: string): (what: string, ...values: unknown[]) => number {
  const call: CFunction = libc.func(prototype)
  const name = /(\w+)\(/.exec(prototype)![1]
  return (what, ...values) => {
    const result = call(...values)
    if (result < 0) throw libc.failure(`${name} ${what}`)
    return result
  }
}

const unshare = kernelCall('int unshare(int flags)')
const setns = kernelCall('int setns(int descriptor, int kind)')
const mountCall = kernelCall(
  'int mount(const char *source, const char *target, const char *type, unsigned long flags, const char *data)',
)
const unmountCall = kernelCall('int umount2(const char *target, int flags)')
const setAffinity = kernelCall('int sched_setaffinity(int thread, size_t size, const void *mask)')
export const changeFolder = kernelCall('int chdir(const char *path)')

/** The kernel lets a thread enter a mount namespace only if it shares its current folder with no other thread. */
unshare('', unshareFlags.fileSystem)
const home = { mounts: openSync(fileOf.mounts, 'r'), network: openSync(fileOf.network, 'r') }
export const homeNetwork = home.network

type MountRequest = {
  source: string | null
  target: string
  type?: string
  flags?: number
  data?: string
}

export function mount({ source, target, type, flags = 0, data }: MountRequest): void {
  mountCall(target, source, target, type ?? null, flags, data ?? null)
}

/** Waits for write-back. Do not use it for mounts that a sandbox has written to. */
export function unmount(target: string): void {
  unmountCall(target, target, 0)
}

/** Keeps a namespace alive by a mount over a file. */
function keepNamespace(descriptor: number, file: string): void {
  mount({ source: `/proc/self/fd/${descriptor}`, target: file, flags: mountFlags.bind })
}

/** Calls `work` inside the namespace that is mounted over a file. */
export function inNamespace<T>(kind: Kind, file: string, work: () => T): T {
  const descriptor = openSync(file, 'r')
  try {
    setns(file, descriptor, unshareFlags[kind])
    return andComeHome(kind, work)
  } finally {
    closeSync(descriptor)
  }
}

/** Makes a namespace, keeps it by a mount over a file, and calls `work` inside it. */
export function makeNamespace(kind: Kind, file: string, work: () => void): void {
  for (let tries = 0; !makeAndKeep(kind, file); tries++) moveToCPU(tries, file)
  inNamespace(kind, file, work)
}

/** Calls `work` in a private copy of this mount namespace, which is gone afterwards. */
export function inPassingMounts(work: () => void): void {
  unshare('', unshareFlags.mounts)
  andComeHome('mounts', () => {
    shareNoMounts()
    work()
  })
}

/** Makes later mounts visible in this mount namespace only. */
export function shareNoMounts(): void {
  mount({ source: null, target: '/', flags: mountFlags.recursive | mountFlags.private })
}

/** False if the kernel considers the new namespace older than the namespace of this process. */
function makeAndKeep(kind: Kind, file: string): boolean {
  unshare('', unshareFlags[kind])
  const descriptor = andComeHome(kind, () => openSync(fileOf[kind], 'r'))
  try {
    keepNamespace(descriptor, file)
    return true
  } catch (error) {
    if (kind === 'mounts' && (error as NodeJS.ErrnoException).code === 'EINVAL') return false
    throw error
  } finally {
    closeSync(descriptor)
  }
}

/**
 * Moves this thread to another CPU, for good. The kernel keeps a mount namespace only in an older one, so that none keeps
 * itself alive, and it compares their numbers. From Linux 6.18 on each CPU numbers namespaces in a range of its own. A new
 * namespace can so get a smaller number than that of the container in which Warren runs. On the CPU that made the
 * container's namespace, new numbers are greater.
 */
function moveToCPU(cpu: number, file: string): void {
  if (cpu >= cpus().length) throw new Error(`No CPU makes a mount namespace that ${file} can keep.`)
  const mask = Buffer.alloc(Math.ceil((cpu + 1) / 64) * 8)
  mask[cpu >> 3] = 1 << (cpu & 7)
  try {
    setAffinity(`to CPU ${cpu}`, 0, mask.length, mask)
  } catch (error) {
    // This process may not use that CPU; the caller tries the next one.
    if ((error as NodeJS.ErrnoException).code !== 'EINVAL') throw error
  }
}

function andComeHome<T>(kind: Kind, work: () => T): T {
  try {
    return work()
  } finally {
    try {
      setns('home', home[kind], unshareFlags[kind])
    } catch {
      // A thread that is stuck in a sandbox's namespace must not serve the next sandbox: this ends the thread.
      process.exit(1)
    }
  }
}
