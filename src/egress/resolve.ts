/** Resolves names for the gate itself: it never dials an address that the sandbox provided for a name. */
import type { RecordWithTtl } from 'node:dns'
import { Resolver } from 'node:dns/promises'
import type { Clock } from '../lib/clock.ts'

/** Returns the IPv4 addresses of a name, from the given servers (`address` or `address:port`). */
export type Resolve = (name: string, servers: readonly string[]) => Promise<string[]>

const maxCacheMs = 60_000
const maxCached = 2000

export function createResolve(clock: Clock): Resolve {
  const cache = new Map<string, { until: number; addresses: Promise<string[]> }>()
  return (name, servers) => {
    const key = [name, ...servers].join(' ')
    const known = cache.get(key)
    if (known && known.until > clock.now()) return known.addresses
    const asked = ask(name, servers)
    const entry = {
      until: clock.now() + maxCacheMs,
      addresses: asked.then((records) => records.map(({ address }) => address)),
    }
    cache.delete(key)
    cache.set(key, entry)
    if (cache.size > maxCached) cache.delete(cache.keys().next().value!)
    asked.then(
      (records) => {
        const ttlSeconds = Math.min(...records.map(({ ttl }) => ttl))
        entry.until = Math.min(entry.until, clock.now() + ttlSeconds * 1000)
      },
      // A failure is not cached: the next call asks again.
      () => cache.get(key) === entry && cache.delete(key),
    )
    return entry.addresses
  }
}

async function ask(name: string, servers: readonly string[]): Promise<RecordWithTtl[]> {
  const resolver = new Resolver({ timeout: 1500, tries: 2 })
  resolver.setServers(servers)
  return await resolver.resolve4(name, { ttl: true })
}
