/**
 * Addresses of names for forwarded ports, by the sandbox's own /etc/hosts and name servers. Our C library does not read these files,
 * since in the agent they could be used against it; here they are read as the user whose connection it is.
 */
import { Resolver } from 'node:dns/promises'
import { readFileSync } from 'node:fs'
import { isIP } from 'node:net'

const loopback = '127.0.0.1'
const timeoutMs = 5000

export async function addressOf(host: string, folder = '/etc'): Promise<string> {
  if (isIP(host) !== 0) return host
  const name = host.toLowerCase()
  if (name === 'localhost' || name === '') return loopback
  const known = linesOf(`${folder}/hosts`).find(
    ([address = '', ...names]) => isIP(address) && names.includes(name),
  )
  if (known) return known[0]!
  const servers = linesOf(`${folder}/resolv.conf`).flatMap(([word, server = '']) =>
    word === 'nameserver' && isIP(server) ? [server] : [],
  )
  const resolver = new Resolver({ timeout: timeoutMs, tries: 2 })
  if (servers.length > 0) resolver.setServers(servers)
  const [address] = await resolver.resolve4(name).catch(() => resolver.resolve6(name))
  if (address === undefined) throw new Error(`${host} has no address`)
  return address
}

function linesOf(file: string): string[][] {
  try {
    return readFileSync(file, 'utf8')
      .split('\n')
      .map((line) => line.replace(/#.*/, '').trim().toLowerCase().split(/\s+/))
  } catch {
    return []
  }
}
