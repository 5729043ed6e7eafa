import { setImmediate } from 'node:timers/promises'

/** Gives the event loop one turn. Use it in long loops that would delay other requests. */
export const letOthersRun = (): Promise<void> => setImmediate()
