/** How the memory of a sandbox is loaded while the sandbox starts and runs. */
import type { PackedParts } from './object-store.ts'

/** Undefined if the pack has no such file. */
export type PartsOfFile = (file: string) => PackedParts | undefined

export type MemoryLoad = {
  signal: AbortSignal
  /** While it is true, memory that nobody waits for arrives slowly: the start needs the CPUs and the network. */
  isStarting: () => boolean
}

/** How long an arriving snapshot can be used if nothing has started from it, in milliseconds. */
export const arrivingExpiryMs = 60_000
