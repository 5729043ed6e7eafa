/** Gauges of the kernel's table of connections, which sandboxes and everything else on the machine share. */
import { readFile } from 'node:fs/promises'
import { join } from 'node:path'
import { ifPresent } from '../../lib/if-present.ts'
import type { Measures } from '../../lib/measures.ts'

const kernelFolder = '/proc/sys/net/netfilter'

/** Undefined: the kernel has not tracked any connection yet. */
export async function readConnections(
  folder = kernelFolder,
): Promise<{ count: number; max: number } | undefined> {
  const read = (file: string) => ifPresent(readFile(join(folder, file), 'utf8'))
  const [count, max] = await Promise.all([read('nf_conntrack_count'), read('nf_conntrack_max')])
  return count === undefined || max === undefined ? undefined : { count: Number(count), max: Number(max) }
}

export function addConnectionGauges(measures: Measures, folder = kernelFolder): void {
  const read = (figure: 'count' | 'max') => async () => {
    const connections = await readConnections(folder)
    return connections ? [{ labels: [], value: connections[figure] }] : []
  }
  measures.gauge({
    name: 'warren_machine_connections',
    help: 'Connections in the kernel’s table, of sandboxes and of everything else on this machine.',
    labelNames: [],
    read: read('count'),
  })
  measures.gauge({
    name: 'warren_machine_connections_max',
    help: 'Connections that fit into the kernel’s table.',
    labelNames: [],
    read: read('max'),
  })
}
