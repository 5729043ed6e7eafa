/**
 * The egress policy of a sandbox. The domain splits it in two: address rules that the driver applies in the
 * kernel to every packet, and names that the gate reads from connections which the driver redirects to it.
 * Destinations that the operator closed stay closed, whatever a policy says.
 */

export type EgressPolicy = {
  /** False: everything that is not allowed by name or address is denied. */
  internet: boolean
  /** IPv4 addresses and CIDR ranges. They override all denied ones. */
  allowAddresses: readonly string[]
  /** Names in lower case without a final dot: `x.com`, `*.x.com`, or `*`. They override everything denied. */
  allowNames: readonly string[]
  denyAddresses: readonly string[]
  /** The DNS servers to use when names are allowed. Null: the server's own choice. Empty: no DNS. */
  dnsServers: readonly string[] | null
  /** Headers to set on requests to a name, with unresolved placeholders. */
  headerRules: readonly HeaderRule[]
  proxy: EgressProxy | null
}

export type HeaderRule = {
  name: string
  /**
   * Limits the rule to connections to this port. Unset: the rule applies to all ports that the gate reads.
   */
  port?: number
  headers: Readonly<Record<string, string>>
  /** Sets the headers on unencrypted requests too, where everybody on the path can read them. */
  onPlainHttp?: boolean
}

/** A SOCKS5 server for all TCP connections. If it is down, no connection leaves the sandbox. */
export type EgressProxy = {
  /** A name or an IPv4 address. */
  host: string
  port: number
  username?: string
  password?: string
  tls?: { serverName?: string; caCert?: string }
}

/** The part of a policy that is decided by address alone. An allowed address overrides a denied one. */
export type AddressRules = {
  allow: readonly string[]
  deny: readonly string[]
  /**
   * Which connections go to the gate instead of their destination: those to ports 80 and 443, or all TCP. DNS
   * always goes with them.
   */
  toGate: 'none' | 'web' | 'all'
  /** Further ports whose connections go to the gate. */
  webPorts?: readonly number[]
}

/** Rules of a sandbox that may reach everything but closed destinations. */
export const openRules: AddressRules = { allow: [], deny: [], toGate: 'none' }

export const closedToAll = '0.0.0.0/0'

/** The ports at which redirected connections arrive. Both accept TCP, the second also UDP. */
export type GatePorts = { proxy: number; dns: number }

/** A sandbox as the gate knows it, by the source address of its packets. */
export type GateClient = {
  sandboxID: string
  teamID: string
  /** The start of the sandbox that has the address, by `startOf`. */
  start: string
  policy: EgressPolicy
}

/** The gate reads the names of redirected connections and lets through those that the policy allows. */
export interface EgressGate {
  /**
   * Applies the policy from now on. Cuts open connections that the new policy does not allow, and all connections of an
   * earlier start at this address.
   */
  admit(address: string, client: GateClient): void
  /** Closes all connections of this start and rejects new ones. Does nothing if another start has the address by now. */
  forget(address: string, start: string): void
  close(): Promise<void>
}

/** Resolves `${e2b.secrets.…}` in header rules. Null if there is no such secret. */
export interface SecretReader {
  readSecret(teamID: string, name: string): Promise<string | null>
}
