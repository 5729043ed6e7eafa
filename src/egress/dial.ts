/**
 * Makes the outgoing connection of a route, directly or through the policy's proxy, and never to a closed
 * address.
 */
import { connect, type Socket } from 'node:net'
import type { EgressPolicy, EgressProxy } from '../core/ports/egress.ts'
import { errorText } from '../lib/app-error.ts'
import type { Clock } from '../lib/clock.ts'
import { addressToNumber } from '../lib/ipv4.ts'
import { type EgressRoute, type IsClosed, isAddressAllowed } from './decide.ts'
import { Rejection, unreachable } from './rejection.ts'
import type { Resolve } from './resolve.ts'
import { connectThrough } from './socks.ts'

type DialerOptions = {
  resolve: Resolve
  /** DNS servers, unless a policy names others. */
  dnsServers: readonly string[]
  isClosed: IsClosed
  clock: Clock
  dialMs: number
}

type Track = (socket: Socket) => void
type Call = { policy: EgressPolicy; route: EgressRoute; port: number; track: Track }

const maxAddresses = 3

export class Dialer {
  readonly #options: DialerOptions

  constructor(options: DialerOptions) {
    this.#options = options
  }

  /** `track` gets every socket as soon as it exists, so that cutting a connection also ends its attempts. */
  dial(policy: EgressPolicy, route: EgressRoute, port: number, track: Track): Promise<Socket> {
    const { clock, dialMs } = this.#options
    return new Promise((resolve, reject) => {
      const attempts: Socket[] = []
      let isLate = false
      const cancel = clock.after(dialMs, () => {
        isLate = true
        for (const socket of attempts) socket.destroy()
        reject(unreachable(`${hostOf(route)}:${port}`, `no connection within ${dialMs / 1000} s`))
      })
      const trackAttempt = (socket: Socket) => {
        attempts.push(socket)
        track(socket)
        if (isLate) socket.destroy()
      }
      this.#open({ policy, route, port, track: trackAttempt }).then(resolve, reject).finally(cancel)
    })
  }

  async #open(call: Call): Promise<Socket> {
    const { policy, route, port, track } = call
    if (policy.proxy) return await this.#openThrough(policy.proxy, call)
    const targets = await this.#targetsOf(policy, route)
    try {
      return await connectToAny(targets, port, track)
    } catch (error) {
      throw unreachable(`${hostOf(route)}:${port}`, errorText(error), error)
    }
  }

  async #openThrough(proxy: EgressProxy, { policy, route, port, track }: Call): Promise<Socket> {
    const { isClosed, dialMs } = this.#options
    const isAddress = addressToNumber(proxy.host) !== undefined
    const addresses = isAddress ? [proxy.host] : await this.#addressesOf(policy, proxy.host)
    if (addresses.some(isClosed)) throw new Rejection(403, 'The egress proxy has an address that is closed.')
    const host = nameForProxy(policy, route) ?? (await this.#targetsOf(policy, route))[0]!
    try {
      const socket = await connectToAny(addresses, proxy.port, track)
      const through = await connectThrough(socket, proxy, { host, port }, dialMs)
      track(through)
      return through
    } catch (error) {
      throw unreachable(host, `the egress proxy did not connect (${errorText(error)})`, error)
    }
  }

  async #targetsOf(policy: EgressPolicy, route: EgressRoute): Promise<string[]> {
    if (route.to === 'address') return [route.address]
    const addresses = await this.#addressesOf(policy, route.name)
    if (route.to === 'name') return addresses
    const allowed = addresses.filter((address) => isAddressAllowed(policy, address, this.#options.isClosed))
    if (allowed.length > 0) return allowed
    throw new Rejection(
      403,
      `The egress policy of this sandbox does not allow ${route.name}: a header rule alone allows no traffic. Add the name to allowOut of the sandbox's network.`,
    )
  }

  async #addressesOf(policy: EgressPolicy, name: string): Promise<string[]> {
    const { isClosed, resolve, dnsServers } = this.#options
    // A policy's own servers are asked only if the sandbox's packets could reach them.
    const own = policy.dnsServers?.filter((server) => !isClosed(server)) ?? []
    let found: string[]
    try {
      found = await resolve(name, own.length > 0 ? own : dnsServers)
    } catch (error) {
      throw unreachable(name, 'it could not be resolved to an IPv4 address', error)
    }
    const open = found.filter((address) => addressToNumber(address) !== undefined && !isClosed(address))
    if (open.length === 0 && found.length > 0) {
      throw new Rejection(403, `${name} leads to an address that is closed to all sandboxes on this server.`)
    }
    if (open.length === 0) throw unreachable(name, 'it has no IPv4 address')
    return open
  }
}

const hostOf = (route: EgressRoute) => (route.to === 'address' ? route.address : route.name)

/**
 * The name to give the proxy, if it cannot lead to a denied address; null if the proxy must get an address.
 */
function nameForProxy(policy: EgressPolicy, route: EgressRoute): string | null {
  const deniesNothing = policy.internet && policy.denyAddresses.length === 0
  return route.to === 'name' || deniesNothing ? route.name : null
}

async function connectToAny(addresses: readonly string[], port: number, track: Track): Promise<Socket> {
  let failure: unknown
  for (const address of addresses.slice(0, maxAddresses)) {
    try {
      return await connectTo(address, port, track)
    } catch (error) {
      failure = error
    }
  }
  throw failure
}

function connectTo(address: string, port: number, track: Track): Promise<Socket> {
  return new Promise((resolve, reject) => {
    const socket = connect({ host: address, port, family: 4, allowHalfOpen: true })
    track(socket)
    socket.once('connect', () => {
      socket.off('error', reject)
      // The next user of the socket adds its listener later.
      socket.on('error', () => {})
      resolve(socket)
    })
    socket.once('error', reject)
    socket.once('close', () => reject(new Error('the connection was closed')))
  })
}
