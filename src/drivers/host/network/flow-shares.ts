/**
 * Shares of the kernel's table of connections: one for each sandbox, one for the sandboxes of an owner together, and one for all
 * sandboxes. The kernel counts a share by walking through a list of its connections, so a large share is counted in parts: a
 * connection belongs to one of them by its id, which the kernel chooses.
 */
import { readFile } from 'node:fs/promises'
import { ifPresent } from '../../../lib/if-present.ts'

/** Maximum numbers of connections, including those that the kernel still tracks. */
export type FlowShares = { perSandbox: number; perOwner: number; all: number }

/** Counting more of them on every new connection would take longer than the connection is worth. */
const maxFlows = 4096
/** The kernel's usual size of the table. */
const usualTable = 262_144
/**
 * The rest of the table is the machine's own. The gate also opens its connections in the name of sandboxes from there.
 */
const parts = { perSandbox: 1 / 32, perOwner: 1 / 4, all: 3 / 4 }
/** Connections of a sandbox whose owner is not known yet. They count for no owner until they end. */
const maxWithoutOwner = 64
/**
 * Connections in one part of a share. With fewer, chance fills a part long before the share is used up; with more, the walk is
 * longer.
 */
const partSize = 128

/** The kernel's limit is known once it tracks any connection; until then its usual value is assumed. */
export async function readFlowShares(given: Partial<FlowShares> = {}): Promise<FlowShares> {
  const text = await ifPresent(readFile('/proc/sys/net/netfilter/nf_conntrack_max', 'utf8'))
  const table = Number(text) || usualTable
  return {
    perSandbox: given.perSandbox ?? Math.min(maxFlows, Math.ceil(table * parts.perSandbox)),
    perOwner: given.perOwner ?? Math.ceil(table * parts.perOwner),
    all: given.all ?? Math.ceil(table * parts.all),
  }
}

type Input = {
  shares: FlowShares
  /** This machine can count in parts. If not, each sandbox has a share, counted as a whole, and nobody else. */
  hasParts: boolean
  /** Numbers of the owners, by link. Undefined: owners have no shares. */
  owners: ReadonlyMap<string, number> | undefined
  subnet: { capacity: number }
}

/** Sets that the kernel fills. It removes what has no connection any more. */
export const countedSets = ['flows', 'newcomers', 'owner_flows', 'all_flows'] as const

export function flowSets({ shares, hasParts, owners, subnet }: Input): string {
  if (!hasParts) return `set flows { type ifname; flags dynamic; size ${subnet.capacity}; }`
  const size = 2 * shares.all
  const byOwner = `set newcomers { type ifname; flags dynamic; size ${subnet.capacity}; }
  map owners { type ifname : classid; ${ownerElements(owners ?? new Map())} }
  set owner_flows { typeof meta priority . ct id; flags dynamic; size ${size}; }
  set all_flows { typeof ct id; flags dynamic; size ${size}; }`
  return `set flows { typeof iifname . ct id; flags dynamic; size ${size}; }\n  ${owners ? byOwner : ''}`
}

/**
 * For the first packet of a connection. The kernel forgets a packet's priority when it enters from a link and chooses another one
 * when it forwards the packet; in between, the priority holds the number of the owner.
 */
export function countingRules({ shares, hasParts, owners }: Omit<Input, 'subnet'>): string {
  if (!hasParts) return `add @flows { iifname ct count over ${shares.perSandbox} } drop`
  const own = `add @flows { iifname . ${inParts(shares.perSandbox)} } drop`
  if (!owners) return own
  return `${own}
    meta priority set iifname map @owners
    meta priority none add @newcomers { iifname ct count over ${Math.min(maxWithoutOwner, shares.perOwner)} } drop
    meta priority != none add @owner_flows { meta priority . ${inParts(shares.perOwner)} } drop
    add @all_flows { ${inParts(shares.all)} } drop`
}

/** A share is counted in a power of two of parts, of at least `partSize` connections each if there are several. */
function inParts(share: number): string {
  const count = 2 ** Math.max(0, Math.floor(Math.log2(share / partSize)))
  return `ct id & ${count - 1} ct count over ${Math.floor(share / count)}`
}

/** A table that a kernel or an nft rejects if it cannot count in parts, and by owner. */
export const partsTrial = (table: string): string => {
  const shares = { perSandbox: 1, perOwner: 256, all: 1024 }
  const input = { shares, hasParts: true, owners: new Map([['lo', 1]]), subnet: { capacity: 1 } }
  return `table inet ${table}_trial {
  ${flowSets(input)}
  chain opening {
    type filter hook prerouting priority mangle; policy accept;
    ct status & confirmed != 0 accept
    ${countingRules(input)}
  }
}
`
}

/** The kernel's numbers have 16 bits. More owners than that on one machine share the last number. */
const maxOwners = 65_535

/** Gives each owner a number, and keeps it as long as the owner has a sandbox. */
export function numberOwners(
  ownerOf: ReadonlyMap<string, string>,
  known: ReadonlyMap<string, number>,
): Map<string, number> {
  const present = new Set(ownerOf.values())
  const numbers = new Map([...known].filter(([owner]) => present.has(owner)))
  const used = new Set(numbers.values())
  let next = 1
  for (const owner of present) {
    if (numbers.has(owner)) continue
    while (used.has(next) && next < maxOwners) next++
    used.add(next)
    numbers.set(owner, next)
  }
  return numbers
}

/** In one transaction. */
export function ownerChanges(
  table: string,
  before: ReadonlyMap<string, number>,
  after: ReadonlyMap<string, number>,
): string {
  const gone = [...before].filter(([link, number]) => after.get(link) !== number)
  const added = [...after].filter(([link, number]) => before.get(link) !== number)
  const links = gone.map(([link]) => `"${link}"`).join(', ')
  return (
    (links && `delete element ${table} owners { ${links} }\n`) +
    (added.length > 0 ? `add element ${table} owners { ${added.map(ownerElement).join(', ')} }\n` : '')
  )
}

const ownerElement = ([link, number]: [string, number]): string => `"${link}" : 0:${number.toString(16)}`
const ownerElements = (owners: ReadonlyMap<string, number>): string =>
  owners.size > 0 ? `elements = { ${[...owners].map(ownerElement).join(', ')} };` : ''
