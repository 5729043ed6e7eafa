/**
 * Checks the addresses of registries. Users choose the names, so their addresses must be on the public
 * internet, unless the operator allows the host. A name is resolved once, and only the found addresses are
 * used.
 */
import type { LookupAddress } from 'node:dns'
import { BlockList, isIP, isIPv6 } from 'node:net'
import { networkInterfaces } from 'node:os'
import { AppError } from '../lib/app-error.ts'
import { internalRanges, unassignedRanges } from '../lib/internal-ranges.ts'
import { retriable } from './image-source.ts'

export type Lookup = (host: string) => Promise<LookupAddress[]>

type RegistryRules = {
  /** Hosts, host:port or `*`, that may have private addresses. */
  allowPrivate: readonly string[]
  /** Hosts or host:port that are contacted without TLS. */
  insecure: readonly string[]
  lookup: Lookup
}

/**
 * Global IPv6 ranges that are closed: special purposes, documentation, and tunnels that carry an IPv4
 * address.
 */
const closed6 = ['2001::/23', '2001:db8::/32', '2002::/16', '3fff::/20']
const global6 = '2000::/3'
const privateAddresses = blockList([...internalRanges, ...unassignedRanges, ...closed6])
const globalAddresses = blockList([global6])
const loopback = blockList(['127.0.0.0/8', '::1/128'])

export class Addresses {
  readonly #rules: RegistryRules
  readonly #found = new Map<string, Promise<LookupAddress[]>>()

  constructor(rules: RegistryRules) {
    this.#rules = rules
  }

  /**
   * The addresses to connect to, the same ones for the lifetime of this object. Rejects if one of them is
   * closed.
   */
  addressesOf(url: URL): Promise<LookupAddress[]> {
    const key = url.host
    const known = this.#found.get(key)
    if (known) return known
    const looking = this.#look(url)
    this.#found.set(key, looking)
    looking.catch(() => this.#found.delete(key))
    return looking
  }

  async isLoopback(url: URL): Promise<boolean> {
    const addresses = await this.addressesOf(url)
    return addresses.every(({ address, family }) => loopback.check(address, family === 6 ? 'ipv6' : 'ipv4'))
  }

  isInsecure(url: URL): boolean {
    return this.#rules.insecure.some((entry) => matches(entry, url))
  }

  /** Without TLS, anyone on the path can read the password and change the answer. */
  async assertScheme(url: URL): Promise<void> {
    if (url.protocol === 'https:' || (url.protocol === 'http:' && this.isInsecure(url))) return
    if (url.protocol === 'http:' && (await this.isLoopback(url))) return
    throw new AppError(
      'permission_denied',
      `The registry leads to ${url.hostname} without encryption, which is not followed. An operator can list the host as insecure.`,
    )
  }

  async #look(url: URL): Promise<LookupAddress[]> {
    const host = url.hostname.replace(/^\[|\]$/g, '')
    const family = isIP(host)
    const addresses = family > 0 ? [{ address: host, family }] : await this.#resolve(host)
    if (this.#rules.allowPrivate.some((entry) => entry === '*' || matches(entry, url))) return addresses
    const closed = addresses.some(({ address }) => !isPublic(address))
    if (addresses.length === 0 || closed) {
      throw new AppError(
        'permission_denied',
        `${url.host} is at an address of an internal network, and images are not fetched from there. An operator can allow this registry.`,
      )
    }
    return addresses
  }

  async #resolve(host: string): Promise<LookupAddress[]> {
    try {
      return await this.#rules.lookup(host)
    } catch (error) {
      const unknown = (error as { code?: unknown }).code === 'ENOTFOUND'
      throw new AppError(unknown ? 'not_found' : 'unavailable', `The name ${host} has no address here.`, {
        cause: error,
        ...(!unknown && retriable),
      })
    }
  }
}

/** An entry without a port applies to every port. */
function matches(entry: string, url: URL): boolean {
  const port = url.port || (url.protocol === 'http:' ? '80' : '443')
  const wanted = entry.toLowerCase()
  return wanted === url.hostname || wanted === `${url.hostname}:${port}` || wanted === url.host
}

export function isPublic(address: string): boolean {
  if (isOwn(address)) return false
  if (!isIPv6(address)) return !privateAddresses.check(address, 'ipv4')
  const inside = embedded4(address)
  if (inside !== undefined) return isPublic(inside)
  return globalAddresses.check(address, 'ipv6') && !privateAddresses.check(address, 'ipv6')
}

/** The IPv4 address inside a mapped one, or inside one that a NAT64 gateway made. */
function embedded4(address: string): string | undefined {
  // The URL parser normalizes every spelling of an address.
  const canonical = new URL(`http://[${address.split('%')[0]}]/`).hostname.slice(1, -1)
  const found = /^(?:::ffff|64:ff9b:):([0-9a-f]{1,4}):([0-9a-f]{1,4})$/.exec(canonical)
  if (!found) return undefined
  const bits = [found[1]!, found[2]!].map((part) => Number.parseInt(part, 16))
  return bits.flatMap((part) => [part >> 8, part & 255]).join('.')
}

/** A service of this machine is internal even on a public address. */
function isOwn(address: string): boolean {
  return Object.values(networkInterfaces()).some((list) => list?.some((own) => own.address === address))
}

function blockList(ranges: readonly string[]): BlockList {
  const list = new BlockList()
  for (const range of ranges) {
    const [network = '', bits] = range.split('/')
    list.addSubnet(network, Number(bits), isIPv6(network) ? 'ipv6' : 'ipv4')
  }
  return list
}
