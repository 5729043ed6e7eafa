import { AsyncContext } from '../../lib/async-context.ts'
import type { PendingChange } from './audit-line.ts'

const current = new AsyncContext<PendingChange>()

/** Runs `work` on behalf of the change, including all that it does after it has returned. */
export function onBehalfOfChange<T>(change: PendingChange, work: () => T): T {
  return current.run(change, work)
}

/** Undefined if no request to change something has caused this work. */
export const currentChange = (): PendingChange | undefined => current.current()
