/**
 * Ends connections whose far end has vanished without a word, as a machine does that loses its power or its network: TCP
 * itself gives up what it has sent after a quarter of an hour, and waits for an answer for ever. While any connection is
 * watched for longer than a moment, a new one to the same place is tried now and then.
 */
import { connect } from 'node:net'
import type { Clock } from './clock.ts'

const tryEveryMs = 3000
/** Time for the first packet and for two more, should it be lost. */
const answerWithinMs = 5000
/** A refusal, in contrast, comes from a machine that is there, and ends the connections that it knows nothing of. */
const silences = new Set(['EHOSTUNREACH', 'ENETUNREACH', 'EHOSTDOWN', 'ETIMEDOUT'])

export type LivenessProbeParts = {
  /** Whether the machine at the far end is there, however busy. */
  isThere: () => Promise<boolean>
  clock: Clock
}

type ProbedConnection = { destroy(error: Error): unknown }

export class LivenessProbe {
  readonly #parts: LivenessProbeParts
  /** With the time since when. */
  readonly #watched = new Map<ProbedConnection, number>()
  #isTicking = false

  constructor(parts: LivenessProbeParts) {
    this.#parts = parts
  }

  get isIdle(): boolean {
    return this.#watched.size === 0
  }

  /** Until the returned function is called. */
  watch(connection: ProbedConnection): () => void {
    this.#watched.set(connection, this.#parts.clock.now())
    if (!this.#isTicking) this.#tickSoon()
    return () => void this.#watched.delete(connection)
  }

  #tickSoon(): void {
    this.#isTicking = true
    this.#parts.clock.after(tryEveryMs, () => void this.#tick())
  }

  async #tick(): Promise<void> {
    const { clock, isThere } = this.#parts
    this.#isTicking = !this.isIdle
    if (this.isIdle) return
    const startedBefore = clock.now() - tryEveryMs
    const waiting = [...this.#watched].filter(([, since]) => since <= startedBefore)
    if (waiting.length > 0 && !(await isThere())) {
      for (const [connection, since] of waiting) {
        if (this.#watched.get(connection) === since)
          connection.destroy(new Error('the other machine is silent'))
      }
    }
    this.#tickSoon()
  }
}

/** The kernel of the other machine answers this, so it says nothing of a process there that is slow. */
export function isMachineThere(target: { host: string; port: number }): Promise<boolean> {
  return new Promise((resolve) => {
    const socket = connect({ ...target, timeout: answerWithinMs })
    const end = (isThere: boolean) => {
      socket.destroy()
      resolve(isThere)
    }
    socket.once('connect', () => end(true))
    socket.once('timeout', () => end(false))
    socket.once('error', (error: NodeJS.ErrnoException) => end(!silences.has(error.code ?? '')))
  })
}
