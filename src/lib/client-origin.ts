/** The client address of a request: that of its connection or, if a peer passed the request on, the one that the peer names. */
import type { IncomingMessage } from 'node:http'
import { BlockList, isIP } from 'node:net'
import type { TLSSocket } from 'node:tls'

type ClientOrigin = { address: string; protocol: 'http' | 'https' }

const origins = new WeakMap<IncomingMessage, ClientOrigin>()

/** Call it for requests of peers only, never with a value that a client sent. */
export function setOrigin(request: IncomingMessage, origin: ClientOrigin): void {
  origins.set(request, origin)
}

export function originOf(request: IncomingMessage): ClientOrigin {
  const known = origins.get(request)
  if (known) return known
  const { socket } = request
  const protocol = (socket as Partial<TLSSocket>).encrypted === true ? 'https' : 'http'
  return { address: socket.remoteAddress ?? 'unknown', protocol }
}

/** Proxies whose X-Forwarded-For is believed. A client can write anything into that header. */
export class TrustedProxies {
  readonly #networks = new BlockList()

  /** Addresses and networks, as `parseNetwork` takes them. */
  constructor(networks: readonly string[]) {
    for (const text of networks) {
      const network = parseNetwork(text)
      if (network) this.#networks.addSubnet(network.address, network.prefix, network.family)
    }
  }

  /** The address nearest to this server that is no trusted proxy's. */
  clientAddressOf(request: IncomingMessage): string {
    let { address } = originOf(request)
    const forwarded = String(request.headers['x-forwarded-for'] ?? '')
    const hops = forwarded.split(',').map((hop) => plainAddress(hop.trim()))
    while (this.#has(address)) {
      const before = hops.pop()
      if (before === undefined || isIP(before) === 0) break
      address = before
    }
    return plainAddress(address)
  }

  #has(text: string): boolean {
    const address = plainAddress(text)
    const version = isIP(address)
    return version !== 0 && this.#networks.check(address, version === 4 ? 'ipv4' : 'ipv6')
  }
}

/** An IPv4 address on a socket of IPv6 has this prefix. */
const plainAddress = (text: string): string => text.replace(/^::ffff:(?=\d+\.)/i, '')

/** Undefined if the text is neither an address nor a network as address/prefix. */
export function parseNetwork(
  text: string,
): { address: string; prefix: number; family: 'ipv4' | 'ipv6' } | undefined {
  const [address = '', length, ...rest] = text.split('/')
  const version = isIP(address)
  const longest = version === 4 ? 32 : 128
  const prefix = length === undefined ? longest : /^\d{1,3}$/.test(length) ? Number(length) : Number.NaN
  if (version === 0 || rest.length > 0 || !(prefix <= longest)) return undefined
  return { address, prefix, family: version === 4 ? 'ipv4' : 'ipv6' }
}
