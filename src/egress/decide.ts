/** Decides whether a connection is allowed, and where it goes. Knows the policy, but no sockets. */

import { matchesAny, matchesName } from '../core/network-policy/name-patterns.ts'
import type { EgressPolicy, HeaderRule } from '../core/ports/egress.ts'
import { addressToNumber, isWithin, parseRange } from '../lib/ipv4.ts'

export type OriginalDestination = { address: string; port: number }

export type EgressRoute =
  /** To any address of the name, because the name itself is allowed. */
  | { to: 'name'; name: string }
  /**
   * To an address of the name that the address rules allow; the address that the sandbox chose does not
   * count.
   */
  | { to: 'allowed-address-of'; name: string }
  /** To the address that the sandbox chose; the name is only for a proxy. */
  | { to: 'address'; address: string; name: string | null }

/** Called with each decision about a connection, a request or a DNS question. */
export type OnDecision = (protocol: 'http' | 'tls' | 'tcp' | 'dns', isAllowed: boolean) => void

export type IsClosed = (address: string) => boolean

/** Null if the egress policy does not allow it. */
export function decide(
  policy: EgressPolicy,
  name: string | null,
  { address, port }: OriginalDestination,
  isClosed: IsClosed,
): EgressRoute | null {
  const nameAllowed = name !== null && matchesAny(policy.allowNames, name)
  if (name !== null && ruleFor(policy, name, port)) {
    return { to: nameAllowed ? 'name' : 'allowed-address-of', name }
  }
  if (isAddressAllowed(policy, address, isClosed)) return { to: 'address', address, name }
  return nameAllowed ? { to: 'name', name } : null
}

export function isAddressAllowed(policy: EgressPolicy, address: string, isClosed: IsClosed): boolean {
  if (isClosed(address)) return false
  if (isInRanges(address, policy.allowAddresses)) return true
  return policy.internet && !isInRanges(address, policy.denyAddresses)
}

/** True if everything that the policy does not mention is allowed: names need not be known then. */
export function isOpenByDefault(policy: EgressPolicy): boolean {
  return policy.internet && !policy.denyAddresses.some(isEverything)
}

/** The most specific rule: by name first, then by port. */
export function ruleFor(policy: EgressPolicy, name: string, port: number): HeaderRule | undefined {
  const fitting = policy.headerRules.filter(
    (rule) => matchesName(rule.name, name) && (rule.port ?? port) === port,
  )
  const exactness = (rule: HeaderRule) =>
    (rule.name === name ? 1000 : rule.name.length) + (rule.port === undefined ? 0 : 0.5)
  return fitting.sort((a, b) => exactness(b) - exactness(a))[0]
}

export function isSameRoute(a: EgressRoute | null, b: EgressRoute | null): boolean {
  return JSON.stringify(a) === JSON.stringify(b)
}

function isInRanges(address: string, ranges: readonly string[]): boolean {
  const number = addressToNumber(address)
  if (number === undefined) return false
  return isWithin(
    number,
    ranges.flatMap((text) => parseRange(text) ?? []),
  )
}

function isEverything(range: string): boolean {
  const parsed = parseRange(range)
  return parsed !== undefined && parsed.first === 0 && parsed.last === 2 ** 32 - 1
}
