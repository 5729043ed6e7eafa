/** The connections to hosts for the requests of one sandbox connection, kept for later requests. */
import type { Agent } from 'node:http'
import type { Socket } from 'node:net'
import { connect as connectTls, type SecureContext } from 'node:tls'
import { errorText } from '../lib/app-error.ts'
import type { Clock } from '../lib/clock.ts'
import type { GateConnection } from './admitted-sandboxes.ts'
import type { EgressRoute } from './decide.ts'
import type { Dialer } from './dial.ts'
import { DialingAgent } from './dialing-agent.ts'
import { unreachable } from './rejection.ts'

export type UpstreamOptions = {
  dialer: Dialer
  /** The certificates that the gate trusts for hosts. */
  trust: () => SecureContext
  clock: Clock
  dialMs: number
}

/** Requests carry their route in an option of that name. `secureName`: use TLS to the host of that name. */
export function createUpstreams(
  connection: GateConnection,
  secureName: string | null,
  options: UpstreamOptions,
): Agent {
  const { sandbox, destination, track } = connection
  const dial = async (given: object): Promise<Socket> => {
    const { route } = given as { route: EgressRoute }
    const plain = await options.dialer.dial(sandbox.policy, route, destination.port, track)
    const socket = secureName === null ? plain : await secure(plain, secureName, options)
    track(socket)
    return socket
  }
  return new DialingAgent(dial, { maxSockets: 1, maxFreeSockets: 4 })
}

export function dropIdle(agent: Agent): void {
  for (const sockets of Object.values(agent.freeSockets)) {
    for (const socket of sockets ?? []) socket.destroy()
  }
}

/** The host must prove its identity to the gate, as it would have to the sandbox. */
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
