/** Ctrl-C and other requests to stop: the first is for the command to clean up, the second ends it at once. */
import { constants } from 'node:os'
import type { Writable } from 'node:stream'

const names = ['SIGINT', 'SIGTERM', 'SIGHUP'] as const

export type StopSignals = Disposable & {
  signal: AbortSignal
  /** The exit code that says which signal it was. */
  exitCode(): number
}

/** An output whose reader has gone stops the command too. */
export function listenForStop(...outputs: Writable[]): StopSignals {
  const abort = new AbortController()
  let exitCode = 0
  const stop = (name: NodeJS.Signals) => {
    exitCode = 128 + constants.signals[name]
    abort.abort(new Error(name))
    forget()
  }
  const onError = () => stop('SIGPIPE')
  function forget(): void {
    for (const name of names) process.off(name, stop)
  }
  for (const name of names) process.on(name, stop)
  for (const output of outputs) output.on('error', onError)
  return { signal: abort.signal, exitCode: () => exitCode, [Symbol.dispose]: forget }
}
