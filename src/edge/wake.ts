/**
 * Wakes paused sandboxes for the requests that are for them. A waiting request's body stays unread, and its
 * client is counted. The implementation of `findResumable` makes all callers share one resume.
 */
import type { FindResumable, ResumableRoute } from '../core/sandbox/network/resumable-route.ts'
import { isAppError } from '../lib/app-error.ts'
import { systemClock } from '../lib/clock.ts'
import type { HttpExchange } from '../lib/http-relay/http-relay.ts'
import { resetSocket } from '../lib/join-sockets.ts'
import type { Log } from '../lib/log.ts'
import { wakeRejectionOf } from './access.ts'
import {
  type EdgeAnswer,
  resumeImpossible,
  resumeLimited,
  routingFailed,
  stillTransitioning,
  tooManyConnections,
} from './answers.ts'
import { Clients } from './clients.ts'
import type { SandboxDestination } from './host.ts'

export class Waker {
  #findResumable: FindResumable
  #connectionLimit: number
  #log: Log
  /** By sandbox, for those that somebody waits for. */
  #waiting = new Map<string, Clients>()

  constructor(findResumable: FindResumable, connectionLimit: number, log: Log) {
    this.#findResumable = findResumable
    this.#connectionLimit = connectionLimit
    this.#log = log
  }

  /**
   * Never rejects. Null if the sandbox is in the route table now, if it exists at all, or if the client has
   * disconnected.
   */
  async wake(
    { request, response }: Pick<HttpExchange, 'request' | 'response'>,
    destination: SandboxDestination,
  ): Promise<EdgeAnswer | null> {
    const { sandboxID, port } = destination
    const clients = this.#waiting.get(sandboxID) ?? new Clients(this.#connectionLimit)
    const leave = clients.enter(port, () => resetSocket(request.socket))
    if (!leave) return tooManyConnections(sandboxID, clients.limit)
    this.#waiting.set(sandboxID, clients)
    const gone = new Promise<null>((resolve) => response.once('close', () => resolve(null)))
    try {
      const sleeping = await this.#findResumable(sandboxID)
      if (!sleeping) return null
      const rejection = wakeRejectionOf(request, destination, sleeping, systemClock.now())
      // Do not keep the request after its client has disconnected.
      return rejection ?? (await Promise.race([gone, this.#outcome(sleeping)]))
    } catch (error) {
      this.#log.debug({ error, sandboxID }, 'could not look up a paused sandbox')
      return routingFailed('could not look the sandbox up. Try again in a moment')
    } finally {
      leave()
      if (clients.isEmpty) this.#waiting.delete(sandboxID)
    }
  }

  /** Resets the connections of all waiting clients. */
  close(): void {
    for (const clients of this.#waiting.values()) clients.cutAll(() => null)
  }

  async #outcome(sleeping: ResumableRoute): Promise<EdgeAnswer | null> {
    try {
      await sleeping.wake()
      return null
    } catch (error) {
      this.#log.debug({ error, sandboxID: sleeping.sandboxID }, 'sandbox could not be woken')
      return answerTo(error, sleeping.sandboxID)
    }
  }
}

function answerTo(error: unknown, sandboxID: string): EdgeAnswer | null {
  if (!isAppError(error)) return routingFailed('the sandbox could not be resumed. Try again in a moment')
  switch (error.code) {
    case 'limit_reached':
      return resumeLimited(sandboxID, error.message)
    case 'conflict':
      return error.slug === undefined
        ? stillTransitioning(sandboxID)
        : resumeImpossible(sandboxID, error.message, error.slug)
    case 'not_found':
      return null
    default:
      return routingFailed(error.message)
  }
}
