/**
 * The egress policy of a sandbox is what its owner asked for; the domain splits it in two: address rules
 * that the driver holds in the kernel for every packet, and names that the gate reads from connections which
 * the driver hands to it. What the operator closed stays closed, whatever a policy says.
 */

export type EgressPolicy = {
  /** False: everything that is not allowed by name or address is denied. */
  internet: boolean
  /** IPv4 addresses and ranges in CIDR form; they win over everything denied. */
  allowAddresses: readonly string[]
  /** Names in lower case without a final dot: `x.com`, `*.x.com`, or `*`. They win over everything denied. */
  allowNames: readonly string[]
  denyAddresses: readonly string[]
  /** Who answers DNS when names are allowed; null is the server's own choice, empty is nobody. */
  dnsServers: readonly string[] | null
  /** Headers to set on requests to a name, with placeholders still in them. */
  headerRules: readonly HeaderRule[]
  proxy: EgressProxy | null
}

export type HeaderRule = {
  name: string
  /** The rule is for connections to this port alone; unset: for all that the gate reads. */
  port?: number
  headers: Readonly<Record<string, string>>
  /** The headers are set on requests in the clear too, where everybody on the way can read them. */
  onPlainHttp?: boolean
}

/** A SOCKS5 server that all TCP connections go through; when it is down, nothing leaves. */
export type EgressProxy = {
  /** A name or an IPv4 address. */
  host: string
  port: number
  username?: string
  password?: string
  tls?: { serverName?: string; caCert?: string }
}

/** The part of a policy that is decided by address alone. An allowed address wins over a denied one. */
export type AddressRules = {
  allow: readonly string[]
  deny: readonly string[]
  /** Connections that go to the gate instead of their destination: those to ports 80 and 443, or all TCP; DNS always with them. */
  toGate: 'none' | 'web' | 'all'
  /** Further ports whose connections go to the gate. */
  webPorts?: readonly number[]
}

/** The rules of a sandbox that may send anywhere but to what is closed. */
export const openRules: AddressRules = { allow: [], deny: [], toGate: 'none' }

export const closedToAll = '0.0.0.0/0'

/** Where connections that are handed over arrive: both ports take TCP, the second UDP too. */
export type GatePorts = { proxy: number; dns: number }

/** A sandbox as the gate knows it: by the address its packets come from. */
export type GateClient = { sandboxID: string; teamID: string; policy: EgressPolicy }

/** The gate: reads the names of connections that the driver hands over, and lets through what policy allows. */
export interface EgressGate {
  /** From now on; open connections that the new policy does not allow are cut. */
  admit(address: string, client: GateClient): void
  /** Ends all connections of an address and knows it no more. */
  forget(address: string): void
  close(): Promise<void>
}

/** Values for `${e2b.secrets.…}` in header rules. Null: there is no such secret. */
export interface SecretReader {
  readSecret(teamID: string, name: string): Promise<string | null>
}
