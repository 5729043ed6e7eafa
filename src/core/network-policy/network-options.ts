/** What a client says about a sandbox's network, as it was sent. */

/** What it may send, replaced as a whole while it runs. */
export type EgressOptions = {
  allowOut?: string[] | null
  denyOut?: string[] | null
  egressProxy?: EgressProxyOptions | null
  rules?: Record<string, HeaderRuleOptions[]> | null
  dnsServers?: string[] | null
}

export type EgressProxyOptions = {
  address: string
  username?: string | null
  password?: string | null
  tls?: { enabled: boolean; serverName?: string | null; caCert?: string | null } | null
}

export type HeaderRuleOptions = {
  transform?: {
    headers?: Record<string, string> | null
    /** Warren's own: without it a rule holds on TLS alone. */
    allowPlainHttp?: boolean | null
  } | null
}

/** How it is reached, said once when it is created. */
export type IngressOptions = {
  /** False: requests need the sandbox's traffic token. */
  allowPublicTraffic?: boolean | null
  maskRequestHost?: string | null
  httpsPorts?: number[] | null
}

export type NetworkOptions = EgressOptions & IngressOptions

/**
 * For showing it to its team: the proxy's password and certificate are only ever taken in. What is null was not
 * said, and clients that may send it cannot all read it.
 */
export function shownNetwork(options: NetworkOptions): NetworkOptions {
  const said: NetworkOptions = JSON.parse(JSON.stringify(options), (_, value) => value ?? undefined)
  if (!said.egressProxy) return said
  const { address, username, tls } = said.egressProxy
  const shownTls = tls && { enabled: tls.enabled, ...(tls.serverName && { serverName: tls.serverName }) }
  return {
    ...said,
    egressProxy: { address, ...(username && { username }), ...(shownTls && { tls: shownTls }) },
  }
}

/** Everything about what leaves is new, and what is not said is cleared; how it is reached stays. */
export function replaceEgress(before: NetworkOptions | null, egress: EgressOptions): NetworkOptions | null {
  const { allowPublicTraffic, maskRequestHost, httpsPorts } = before ?? {}
  const { allowOut, denyOut, egressProxy, rules, dnsServers } = egress
  const all = {
    allowPublicTraffic,
    maskRequestHost,
    httpsPorts,
    allowOut,
    denyOut,
    egressProxy,
    rules,
    dnsServers,
  }
  const given = Object.entries(all).filter(([, value]) => value !== undefined && value !== null)
  return given.length > 0 ? (Object.fromEntries(given) as NetworkOptions) : null
}
