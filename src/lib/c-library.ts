/** Functions of the C library that Node does not offer, called through an addon (koffi). The only place that loads it. */
import { AppError } from './app-error.ts'

type Addon = {
  load(library: string): Pick<CLibrary, 'func'>
  errno(): number
  view(address: bigint, bytes: number): ArrayBuffer
  config(): Record<string, number>
  config(given: Record<string, number>): unknown
}

export type CFunction<Result = number> = (...values: unknown[]) => Result
export type CLibrary = {
  /** A function that returns an address gives a bigint. */
  func<Result = number>(prototype: string): CFunction<Result>
  /** The error number of the last call. */
  errno(): number
  /** Memory that the C library gave us; nobody may touch it here once it is given back. */
  view(address: bigint, bytes: number): Buffer
}

/** No call has large arguments, and none is made from another thread: the memory kept ready for that is wasted. */
const smallPools = {
  sync_stack_size: 64 * 1024,
  sync_heap_size: 64 * 1024,
  async_stack_size: 64 * 1024,
  async_heap_size: 64 * 1024,
  resident_async_pools: 0,
}
const opened = new Map<string, CLibrary>()

/** Rejects with the text of `missing` where the addon cannot be loaded. */
export function openCLibrary(
  addonPath: string,
  missing = 'this is not available here: the addon for calls of the C library is missing',
): CLibrary {
  const known = opened.get(addonPath)
  if (known) return known
  const module = { exports: {} as Addon }
  try {
    process.dlopen(module, addonPath)
  } catch (error) {
    throw new AppError('unavailable', missing, { cause: error })
  }
  const addon = module.exports
  addon.config({ ...addon.config(), ...smallPools })
  const library = addon.load('libc.so.6')
  const functions: CLibrary = {
    func: (prototype) => library.func(prototype),
    errno: () => addon.errno(),
    view: (address, bytes) => Buffer.from(addon.view(address, bytes)),
  }
  opened.set(addonPath, functions)
  return functions
}
