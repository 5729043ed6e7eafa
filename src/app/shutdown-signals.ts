/** The signals by which an operator or a service manager stops Warren. SIGHUP comes when the terminal closes. */

const names = ['SIGINT', 'SIGTERM', 'SIGHUP'] as const

export class ShutdownSignals {
  readonly #exit: () => void
  #heard: (signal: NodeJS.Signals) => void

  /** A signal that nobody waits for ends the process at once. */
  constructor(source: Pick<NodeJS.EventEmitter, 'on'> = process, exit: () => void = () => process.exit(130)) {
    this.#exit = exit
    this.#heard = exit
    for (const name of names) source.on(name, (signal: NodeJS.Signals) => this.#heard(signal))
  }

  /** Resolves with the next signal. */
  next(): Promise<NodeJS.Signals> {
    return new Promise((resolve) => {
      this.#heard = (signal) => {
        this.#heard = this.#exit
        resolve(signal)
      }
    })
  }

  /** Waits for that time, or until the next signal. */
  async pause(ms: number): Promise<void> {
    const { promise, resolve } = Promise.withResolvers<void>()
    const timer = setTimeout(resolve, ms)
    this.#heard = () => resolve()
    await promise
    clearTimeout(timer)
    this.#heard = this.#exit
  }
}
