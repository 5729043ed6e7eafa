import type { DriverHandle } from '../../ports/driver.ts'

/** A sandbox that waits in the warm pool. */
export type WarmSandbox = {
  sandboxID: string
  runID: string
  handle: DriverHandle
  buildID: string
  /** Set when its processes are being frozen; resolves when they are, or when that failed. */
  freeze?: Promise<void>
  /** Prevents the freeze unless it has begun already. */
  cancelFreeze: () => void
}
