/** Gauges of the kernel's table of connections, which sandboxes and everything else on the machine share. */
import { readFile } from 'node:fs/promises'
import { join } from 'node:path'
import { ifPresent } from '../../lib/if-present.ts'
import type { Measures } from '../../lib/measures.ts'

const kernelFolder = '/proc/sys/net/netfilter'

/** A kernel that has not tracked any connection yet has no figures. */
export function addConnectionGauges(measures: Measures, folder = kernelFolder): void {
  const read = (file: string) => async () => {
    const text = await ifPresent(readFile(join(folder, file), 'utf8'))
    return text === undefined ? [] : [{ labels: [], value: Number(text) }]
  }
  measures.gauge({
    name: 'warren_machine_connections',
    help: 'Connections in the kernel’s table, of sandboxes and of everything else on this machine.',
    labelNames: [],
    read: read('nf_conntrack_count'),
  })
  measures.gauge({
    name: 'warren_machine_connections_max',
    help: 'Connections that fit into the kernel’s table.',
    labelNames: [],
    read: read('nf_conntrack_max'),
  })
}
