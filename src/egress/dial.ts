/** Makes the outgoing connection of a route: directly or through the policy's proxy, never to what is closed. */
import { connect, type Socket } from 'node:net'
import type { EgressPolicy } from '../core/egress.ts'
import { errorText } from '../lib/app-error.ts'
import type { Clock } from '../lib/clock.ts'
import { addressToNumber } from '../lib/ipv4.ts'
import { type IsClosed, isAddressAllowed, type Route } from './decide.ts'
import { Refusal, unreachable } from './refusal.ts'
import type { Resolve } from './resolve.ts'
import { connectThrough, proxyEndpoint } from './socks.ts'

export type DialOptions = {
  resolve: Resolve
  /** Who is asked where names lead, unless a policy says. */
  dnsServers: readonly string[]
  isClosed: IsClosed
  clock: Clock
  dialMs: number
}

/** `track` sees every socket at once, so that a connection that is cut takes its attempts with it. */
export type Dial = (
  policy: EgressPolicy,
  route: Route,
  port: number,
  track: (socket: Socket) => void,
) => Promise<Socket>

const mostAddresses = 3

export function createDial(options: DialOptions): Dial {
  const { isClosed, clock } = options

  async function addressesOf(policy: EgressPolicy, name: string): Promise<string[]> {
    // A policy's own servers are asked only where the sandbox's packets could go.
    const own = policy.dnsServers?.filter((server) => !isClosed(server)) ?? []
    let found: string[]
    try {
      found = await options.resolve(name, own.length > 0 ? own : options.dnsServers)
    } catch (error) {
      throw unreachable(name, 'it could not be resolved to an IPv4 address', error)
    }
    const open = found.filter((address) => addressToNumber(address) !== undefined && !isClosed(address))
    if (open.length === 0 && found.length > 0) {
      throw new Refusal(403, `${name} leads to an address that is closed to all sandboxes on this server.`)
    }
    if (open.length === 0) throw unreachable(name, 'it has no IPv4 address')
    return open
  }

  async function targetsOf(policy: EgressPolicy, route: Route): Promise<string[]> {
    if (route.to === 'address') return [route.address]
    const addresses = await addressesOf(policy, route.name)
    if (route.to === 'name') return addresses
    const allowed = addresses.filter((address) => isAddressAllowed(policy, address, isClosed))
    if (allowed.length > 0) return allowed
    throw new Refusal(
      403,
      `This sandbox's network policy does not allow ${route.name}: a header rule alone allows no traffic. Add the name to allowOut of the sandbox's network.`,
    )
  }

  async function throughProxy(
    policy: EgressPolicy,
    route: Route,
    port: number,
    track: Track,
  ): Promise<Socket> {
    const proxy = policy.proxy!
    const { host, port: proxyPort } = proxyEndpoint(proxy)
    const addresses = addressToNumber(host) === undefined ? await addressesOf(policy, host) : [host]
    if (addresses.some(isClosed)) throw new Refusal(403, 'The egress proxy has an address that is closed.')
    const target = proxyTarget(policy, route) ?? (await targetsOf(policy, route))[0]!
    try {
      const socket = await connectToAny(addresses, proxyPort, track)
      const through = await connectThrough(socket, proxy, target, port)
      track(through)
      return through
    } catch (error) {
      throw unreachable(target, `the egress proxy did not connect (${errorText(error)})`, error)
    }
  }

  async function connectToAny(addresses: readonly string[], port: number, track: Track): Promise<Socket> {
    let failure: unknown
    for (const address of addresses.slice(0, mostAddresses)) {
      try {
        return await connectTo(address, port, track)
      } catch (error) {
        failure = error
      }
    }
    throw failure
  }

  async function open(policy: EgressPolicy, route: Route, port: number, track: Track): Promise<Socket> {
    if (policy.proxy) return await throughProxy(policy, route, port, track)
    const targets = await targetsOf(policy, route)
    try {
      return await connectToAny(targets, port, track)
    } catch (error) {
      const what = route.to === 'address' ? route.address : route.name
      throw unreachable(`${what}:${port}`, errorText(error), error)
    }
  }

  return (policy, route, port, track) =>
    new Promise((resolve, reject) => {
      const attempts: Socket[] = []
      let late = false
      const cancel = clock.after(options.dialMs, () => {
        late = true
        for (const socket of attempts) socket.destroy()
        const what = route.to === 'address' ? route.address : route.name
        reject(unreachable(`${what}:${port}`, `no connection within ${options.dialMs / 1000} s`))
      })
      const trackAttempt = (socket: Socket) => {
        attempts.push(socket)
        track(socket)
        if (late) socket.destroy()
      }
      open(policy, route, port, trackAttempt).then(resolve, reject).finally(cancel)
    })
}

type Track = (socket: Socket) => void

/** A proxy is told the name where that cannot lead to a denied address; null where an address must do. */
function proxyTarget(policy: EgressPolicy, route: Route): string | null {
  const deniesNothing = policy.internet && policy.denyAddresses.length === 0
  return route.to === 'name' || deniesNothing ? route.name : null
}

function connectTo(address: string, port: number, track: Track): Promise<Socket> {
  return new Promise((resolve, reject) => {
    const socket = connect({ host: address, port, family: 4, allowHalfOpen: true })
    track(socket)
    socket.once('connect', () => {
      socket.off('error', reject)
      // Whoever takes the socket listens later.
      socket.on('error', () => {})
      resolve(socket)
    })
    socket.once('error', reject)
    socket.once('close', () => reject(new Error('the connection was closed')))
  })
}
