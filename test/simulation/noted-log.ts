import type { Log } from '../../src/lib/log.ts'

/** The log of a simulated node: its lines become lines of the history, which is shown if the history breaks a rule. */
export function notedLog(name: string, note: (line: () => string) => void): Log {
  const say = (level: string) => (values: object, message: string) => {
    const { err, ...rest } = values as { err?: Error }
    const failure = err ? ` (${err.message})` : ''
    note(() => `${name} log ${level}: ${message} ${JSON.stringify(rest)}${failure}`)
  }
  return { debug: say('debug'), info: () => {}, warn: say('warn'), error: say('error') }
}
