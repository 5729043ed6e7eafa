/** More of what a Warren's sandboxes leave on the machine than `traces.ts` counts: routes, elements of sets, watches, keys, files. */
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { instanceOf } from '../../src/drivers/host/record/layout.ts'
import { addressToNumber, parseRange } from '../../src/lib/ipv4.ts'
import { countTraces, names, run, type Traces } from './traces.ts'
import { seat, subnetOf, type Warren } from './warren.ts'

export type HostTraces = Traces &
  Record<'routes' | 'flows' | 'elements' | 'watches' | 'userKeys' | 'runFiles' | 'dataFiles', number>

/** Each sandbox under runc has users of its own: ranges of this size from this one on, as the driver gives them. */
const usersPerSlot = 65_536
const firstRange = 2048
const ranges = 30_000
const maxSlots = 4096

export function countHostTraces({ dataFolder, pid, isolation }: Warren): HostTraces {
  const instance = instanceOf(dataFolder)
  const lines = (text: string, word: string) => text.split('\n').filter((line) => line.includes(word)).length
  return {
    ...countTraces(dataFolder),
    routes: lines(run('ip', 'route', 'show', 'table', 'all'), `w${instance}`),
    flows: countFlows(subnetOf(isolation, seat)),
    elements: countElements(instance),
    watches: countWatches(pid),
    userKeys: countKeys(instance),
    runFiles: run('find', `/run/warren-${instance}`).split('\n').length,
    dataFiles: ['volumes', 'disks', 'sandboxes', 'saved', 'build-files', 'images']
      .flatMap((folder) => run('find', join(dataFolder, folder), '-maxdepth', '2').split('\n'))
      .filter((path) => path !== '').length,
  }
}

/** Connections of its sandboxes in the machine's table. */
function countFlows(subnet: string): number {
  const { first, last } = parseRange(subnet)!
  const isOurs = (address: string) => addressToNumber(address)! >= first && addressToNumber(address)! <= last
  const rows = run('cat', '/proc/net/nf_conntrack').split('\n')
  return rows.filter((row) =>
    [...row.matchAll(/(?:src|dst)=([\d.]+) /g)].some(([, address]) => isOurs(address!)),
  ).length
}

/** Of all sets of its table that hold a sandbox's own rules. Packets fill the one of flows, and it empties itself. */
function countElements(instance: string): number {
  const listed = run('nft', '--json', 'list', 'table', 'inet', `warren_${instance}`)
  if (listed === '') return 0
  type ListedSet = { name: string; elem?: unknown[] }
  const { nftables } = JSON.parse(listed) as { nftables: { set?: ListedSet }[] }
  return nftables.reduce((sum, { set }) => sum + (set?.name === 'flows' ? 0 : (set?.elem?.length ?? 0)), 0)
}

function countWatches(pid: number): number {
  return names(`/proc/${pid}/fdinfo`)
    .map((fd) => run('cat', `/proc/${pid}/fdinfo/${fd}`))
    .reduce((sum, text) => sum + text.split('\n').filter((line) => line.startsWith('inotify ')).length, 0)
}

/** Keys that the kernel keeps for users of sandboxes. */
function countKeys(instance: string): number {
  const offset = Number.parseInt(instance, 36) % ranges
  const isOurs = (uid: number) => {
    const range = Math.floor(uid / usersPerSlot) - firstRange
    return range >= 0 && (range - offset + ranges) % ranges < maxSlots
  }
  const rows = readFileSync('/proc/keys', 'utf8').split('\n')
  return rows.filter((row) => isOurs(Number(row.trim().split(/\s+/)[5]))).length
}
