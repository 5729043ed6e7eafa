/** Header rules: headers that are set, outside the sandbox, on requests to a name. */
import type { HeaderRule } from '../ports/egress.ts'
import { invalidNetwork } from './invalid-network.ts'
import { parseNamePattern } from './name-patterns.ts'
import type { HeaderRuleOptions } from './network-options.ts'

const maxDomains = 10
const maxHeaders = 20
const longestName = 128
const longestValue = 4096
/** Headers that frame or route the request itself: changing one would let a request hide in another. */
const reserved = new Set([
  ...['connection', 'content-length', 'expect', 'host', 'http2-settings', 'keep-alive', 'proxy-connection'],
  ...['te', 'trailer', 'transfer-encoding', 'upgrade'],
])
const token = /^[!#$%&'*+.^_`|~0-9A-Za-z-]+$/
/** Visible ASCII, with blanks and tabs inside. */
const fieldValue = /^[\x21-\x7e](?:[\t\x20-\x7e]*[\x21-\x7e])?$/

export function parseHeaderRules(
  rules: Readonly<Record<string, readonly HeaderRuleOptions[]>>,
): HeaderRule[] {
  const domains = Object.entries(rules)
  if (domains.length > maxDomains)
    throw invalidNetwork(`network.rules may name at most ${maxDomains} domains`)
  const parsed = domains.flatMap(([domain, list]) => {
    const host = parseHost(domain)
    if (host === undefined) throw invalidNetwork(`network.rules: "${domain}" is not a domain`)
    if (list.length > 1) throw invalidNetwork(`network.rules: "${domain}" may have only one rule`)
    const headers = Object.entries(list[0]?.transform?.headers ?? {})
    if (headers.length === 0) return []
    const onPlainHttp = list[0]?.transform?.allowPlainHttp === true
    return [{ ...host, headers: parseHeaders(domain, headers), ...(onPlainHttp && { onPlainHttp }) }]
  })
  const names = parsed.map(({ name, port }) => (port === undefined ? name : `${name}:${port}`))
  const twice = names.find((name, index) => names.indexOf(name) !== index)
  if (twice !== undefined) throw invalidNetwork(`network.rules: "${twice}" is named twice`)
  return parsed
}

/** The clients' `getHost()` returns a name with a port if the server's domain has a port. */
function parseHost(text: string): Pick<HeaderRule, 'name' | 'port'> | undefined {
  const [, host = '', digits] = /^(.*?)(?::(\d{1,5}))?$/s.exec(text) ?? []
  const name = parseNamePattern(host)
  if (name === undefined || digits === undefined) return name === undefined ? undefined : { name }
  const port = Number(digits)
  return port >= 1 && port <= 65_535 ? { name, port } : undefined
}

function parseHeaders(domain: string, headers: [string, string][]): Record<string, string> {
  const say = (what: string) => invalidNetwork(`network.rules: "${domain}" ${what}`)
  if (headers.length > maxHeaders) throw say(`may set at most ${maxHeaders} headers`)
  const seen = new Set<string>()
  for (const [header, value] of headers) {
    const name = header.toLowerCase()
    if (!token.test(header) || header.length > longestName) throw say(`cannot set a header "${header}"`)
    if (reserved.has(name)) throw say(`may not set ${name}: it belongs to the connection`)
    if (seen.has(name)) throw say(`sets ${name} twice`)
    seen.add(name)
    if (value.length > longestValue) throw say(`gives ${name} more than ${longestValue} characters`)
    if (!fieldValue.test(value)) throw say(`gives ${name} a value that is empty or not plain ASCII`)
    if (value.includes(`\${e2b.identity.`)) {
      throw say(`uses a workload token in ${name}; this version of Warren has no workload tokens`)
    }
  }
  return Object.fromEntries(headers)
}
