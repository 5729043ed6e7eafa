import type { Log } from '../../src/lib/log.ts'
import type { RateWatch } from './rate-watch.ts'

/** The log of a simulated node: its lines become lines of the history, which is shown if the history breaks a rule. */
export function notedLog(name: string, note: (line: () => string) => void, rates: RateWatch): Log {
  const say = (level: string) => (values: object, message: string) => {
    const { err, ...rest } = values as { err?: Error; sandboxID?: string; subject?: string }
    const failure = err ? ` (${err.message})` : ''
    note(() => `${name} log ${level}: ${message} ${JSON.stringify(rest)}${failure}`)
    rates.seeLine(name, level, message, rest.sandboxID ?? rest.subject ?? '')
  }
  return { debug: say('debug'), info: () => {}, warn: say('warn'), error: say('error') }
}
