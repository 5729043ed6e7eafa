/**
 * Ends connections whose far end has vanished silently, such as a machine that lost its power or its network, or stands still,
 * such as a stopped process or one that waits for a hung disk. TCP itself gives up unacknowledged data only after a quarter of an
 * hour, and waits for an answer forever. While a connection is watched for longer than a moment, this tries a new connection to
 * the same address now and then.
 */
import { connect, type NetConnectOpts } from 'node:net'
import type { Clock } from './clock.ts'

const tryEveryMs = 3000
/** Time for the first packet and two retransmissions. */
const connectWithinMs = 5000
/** A process that does not answer a new connection for this long stands still. One that is only busy answers earlier. */
const answerWithinMs = 10_000
/** Errors that mean silence. ECONNREFUSED is none: that machine is alive, and resets connections that it does not know. */
const silences = new Set(['EHOSTUNREACH', 'ENETUNREACH', 'EHOSTDOWN', 'ETIMEDOUT'])

type LivenessProbeParts = {
  /** True if the process at the far end is alive, however busy. */
  isThere: () => Promise<boolean>
  clock: Clock
}

type ProbedConnection = { destroy(error: Error): unknown }

export class LivenessProbe {
  readonly #parts: LivenessProbeParts
  /** The watched connections, with the time when each watch began. */
  readonly #watched = new Map<ProbedConnection, number>()
  #isTicking = false

  constructor(parts: LivenessProbeParts) {
    this.#parts = parts
  }

  get isIdle(): boolean {
    return this.#watched.size === 0
  }

  /** Watches the connection until the returned function is called. */
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
    const askedAt = clock.now()
    const isDue = [...this.#watched.values()].some((since) => since <= askedAt - tryEveryMs)
    if (isDue && !(await isThere())) {
      // Whoever came before the question has waited for as long as the answer to it.
      for (const [connection, since] of [...this.#watched])
        if (since <= askedAt) connection.destroy(new Error('the other side is silent'))
    }
    this.#tickSoon()
  }
}

/**
 * Connects, and finds out whether the process answers, and not only the kernel of its machine. A process that gets no
 * `question` answers by closing a connection that was closed.
 */
export function isProcessThere(target: NetConnectOpts, question?: Buffer): Promise<boolean> {
  return new Promise((resolve) => {
    const socket = connect({ ...target, allowHalfOpen: true })
    const end = (isThere: boolean) => {
      clearTimeout(timer)
      socket.destroy()
      resolve(isThere)
    }
    let timer = setTimeout(end, connectWithinMs, false)
    timer.unref()
    socket.once('connect', () => {
      clearTimeout(timer)
      timer = setTimeout(end, answerWithinMs, false)
      timer.unref()
      if (question) socket.write(question)
      else socket.end()
    })
    socket.once('data', () => end(true))
    socket.once('end', () => end(true))
    socket.once('error', (error: NodeJS.ErrnoException) => end(!silences.has(error.code ?? '')))
  })
}
