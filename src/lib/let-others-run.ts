import { setImmediate } from 'node:timers/promises'

/** Gives the event loop one turn. For loops over so much that everybody else would notice the wait. */
export const letOthersRun = (): Promise<void> => setImmediate()
