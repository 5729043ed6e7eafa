/** The proxy that the environment names, for everything that a start downloads. */

export type ProxyVariables = Partial<Record<'http_proxy' | 'https_proxy' | 'no_proxy', string>>

/** In lowercase, which all programs read: apt and wget know no other spelling. */
export function proxyVariables(env: Record<string, string | undefined> = process.env): ProxyVariables {
  const found: ProxyVariables = {}
  for (const name of ['http_proxy', 'https_proxy', 'no_proxy'] as const) {
    const value = env[name] || env[name.toUpperCase()]
    if (value) found[name] = value
  }
  return found
}

/** A sentence about the proxy for a message about a download that failed; empty if there is none. Shows no password. */
export function aboutProxy(scheme: 'http' | 'https', variables: ProxyVariables = proxyVariables()): string {
  const name = `${scheme}_proxy` as const
  const proxy = variables[name]
  if (proxy === undefined) return ''
  const shown = proxy.replace(/^(\w+:\/\/)?[^@/]*@/, '$1')
  return ` It was asked for through the proxy ${shown}, which ${name.toUpperCase()} names: see to it that the proxy answers, correct the variable, or except the host in NO_PROXY.`
}
