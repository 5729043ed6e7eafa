import { AppError } from '../../../lib/app-error.ts'
import type { Driver } from '../../ports/driver.ts'

/**
 * Returns a signal that aborts with the given one, or when the driver reports that the run died. `close` ends
 * the watch.
 */
export function exitSignal(
  driver: Pick<Driver, 'onExit'>,
  { sandboxID, runID }: { sandboxID: string; runID: string },
  signal: AbortSignal,
): { signal: AbortSignal; close: () => void } {
  const died = new AbortController()
  const close = driver.onExit((exit) => {
    if (exit.sandboxID !== sandboxID || exit.runID !== runID) return
    died.abort(new AppError('internal', `its processes ended before it was ready. ${exit.detail}`))
  })
  return { signal: AbortSignal.any([signal, died.signal]), close }
}
