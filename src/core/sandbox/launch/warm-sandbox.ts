import type { DriverHandle } from '../../ports/driver.ts'

/** A sandbox that waits in the warm pool. */
export type WarmSandbox = {
  sandboxID: string
  runID: string
  handle: DriverHandle
  buildID: string
  /** Once its processes are made to stand still; resolves when they do, or when that failed. */
  freeze?: Promise<void>
  /** Keeps it from being frozen, unless it is already. */
  cancelFreeze: () => void
}
