/** A client's options for a sandbox's network, as they were sent. */

/** Options for outgoing traffic. An update replaces all of them while the sandbox runs. */
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
    /** Only Warren has this option. Without it a rule applies to TLS only. */
    allowPlainHttp?: boolean | null
  } | null
}

/** Options for incoming traffic, set once when the sandbox is created. */
export type IngressOptions = {
  /** False: requests need the sandbox's traffic token. */
  allowPublicTraffic?: boolean | null
  maskRequestHost?: string | null
  httpsPorts?: number[] | null
}

export type NetworkOptions = EgressOptions & IngressOptions

/**
 * The options as shown to the team. The proxy's password and certificate are never shown. Null fields are
 * left out, because not all clients that may send null can read it.
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

/** Replaces all egress options, clearing those that are not given, and keeps the ingress options. */
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
