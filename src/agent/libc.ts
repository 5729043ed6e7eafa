/** The C library's own functions, through the addon (koffi) that the kit carries. Loaded when first needed. */
import { AppError } from '../lib/app-error.ts'

type Addon = {
  load(library: string): { func(prototype: string): CFunction }
  errno(): number
  config(): Record<string, number>
  config(given: Record<string, number>): unknown
}

export type CFunction = (...values: unknown[]) => number
export type Libc = {
  func(prototype: string): CFunction
  /** Of the last call. */
  errno(): number
}

/** Calls from other threads are never made: the memory the addon holds ready for them would be wasted. */
const smallPools = {
  sync_stack_size: 64 * 1024,
  sync_heap_size: 64 * 1024,
  async_stack_size: 64 * 1024,
  async_heap_size: 64 * 1024,
  resident_async_pools: 0,
}
const opened = new Map<string, Libc>()

export function openLibc(addonPath: string): Libc {
  const known = opened.get(addonPath)
  if (known) return known
  const module = { exports: {} as Addon }
  try {
    process.dlopen(module, addonPath)
  } catch (error) {
    throw new AppError('unavailable', 'this is not available here: the agent kit lacks its addon', {
      cause: error,
    })
  }
  module.exports.config({ ...module.exports.config(), ...smallPools })
  const library = module.exports.load('libc.so.6')
  const libc = {
    func: (prototype: string) => library.func(prototype),
    errno: () => module.exports.errno(),
  }
  opened.set(addonPath, libc)
  return libc
}
