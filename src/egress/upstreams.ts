/** The connections to hosts that requests of one sandbox's connection go over, kept for the next request. */
import { Agent } from 'node:http'
import type { Socket } from 'node:net'
import { connect as connectTls, type SecureContext } from 'node:tls'
import { errorText } from '../lib/app-error.ts'
import type { Clock } from '../lib/clock.ts'
import type { Connection } from './clients.ts'
import type { Route } from './decide.ts'
import type { Dial } from './dial.ts'
import { unreachable } from './refusal.ts'

export type UpstreamOptions = {
  dial: Dial
  /** Whom the gate trusts as the far end of TLS. */
  trust: () => SecureContext
  clock: Clock
  dialMs: number
}

/** Shorter than what servers commonly allow, so that they seldom close one just as it is picked. */
const keptIdleMs = 4000

/** Requests carry their route in an option of that name. `secureName`: TLS to the host of that name. */
export function createUpstreams(
  connection: Connection,
  secureName: string | null,
  options: UpstreamOptions,
): Agent {
  const agent = new Agent({ keepAlive: true, maxSockets: 1, maxFreeSockets: 4, timeout: keptIdleMs })
  agent.createConnection = (given, callback) => {
    const done = callback as (error: Error | null, socket?: Socket) => void
    const { route } = given as unknown as { route: Route }
    const { client, destination, track } = connection
    options
      .dial(client.policy, route, destination.port, track)
      .then((socket) => (secureName === null ? socket : secure(socket, secureName, options)))
      .then((socket) => {
        track(socket)
        done(null, socket)
      }, done)
    return undefined
  }
  return agent
}

export function dropIdle(agent: Agent): void {
  for (const sockets of Object.values(agent.freeSockets)) {
    for (const socket of sockets ?? []) socket.destroy()
  }
}

/** The host must prove itself to the gate as it would have to the sandbox. */
function secure(socket: Socket, name: string, { trust, clock, dialMs }: UpstreamOptions): Promise<Socket> {
  return new Promise((resolve, reject) => {
    const fail = (error: Error) => {
      cancel()
      socket.destroy()
      reject(unreachable(name, `TLS failed (${errorText(error)})`, error))
    }
    const cancel = clock.after(dialMs, () => fail(new Error('no answer in time')))
    const secured = connectTls({
      socket,
      servername: name,
      secureContext: trust(),
      ALPNProtocols: ['http/1.1'],
    })
    secured.once('error', fail)
    secured.once('secureConnect', () => {
      cancel()
      secured.off('error', fail).on('error', () => {})
      resolve(secured)
    })
  })
}
