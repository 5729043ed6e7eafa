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

  /** Waits for the end of the work, or until the next signal. */
  async waitFor(work: Promise<unknown>): Promise<void> {
    const { promise: heard, resolve } = Promise.withResolvers<void>()
    this.#heard = () => resolve()
    await Promise.race([work, heard])
    this.#heard = this.#exit
  }
}
