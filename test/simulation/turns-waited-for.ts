/** Counts the loops of the core that have given the event loop a turn and wait for their own. */
import { syncBuiltinESMExports } from 'node:module'
import timers from 'node:timers/promises'

let waiting = 0

const { setImmediate } = timers
timers.setImmediate = async (...args) => {
  waiting++
  try {
    return await setImmediate(...args)
  } finally {
    waiting--
  }
}
syncBuiltinESMExports()

export const countTurnsWaitedFor = (): number => waiting
