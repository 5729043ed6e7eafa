/** Gauges of the server, which are read at the moment when somebody asks for the metrics. */
import type { GpuCapacity } from '../../core/ports/gpu.ts'
import type { Admission } from '../../core/sandbox/capacity/admission.ts'
import type { DiskGuard } from '../../core/sandbox/capacity/disk-guard.ts'
import type { MachineMemoryGuard } from '../../core/sandbox/capacity/machine-memory-guard.ts'
import type { RouteTable } from '../../core/sandbox/network/routes.ts'
import type { WarmPool } from '../../core/sandbox/warm-pool/warm-pool.ts'
import { JoinedWork } from '../../lib/keyed-lock.ts'
import type { Measures } from '../../lib/measures.ts'
import type { Stores } from '../../store/stores.ts'
import type { ServerHealth } from './server-health.ts'

type GaugeParts = {
  health: Pick<ServerHealth, 'databaseProblem'>
  stores: Pick<Stores, 'sandboxes'>
  warm: Pick<WarmPool, 'count'>
  admission: Pick<Admission, 'waiting' | 'capacity'>
  routes: Pick<RouteTable, 'values'>
  diskGuard: Pick<DiskGuard, 'frozenCount' | 'counts' | 'teamShares'>
  memoryGuard: Pick<MachineMemoryGuard, 'frozenCount' | 'counts' | 'teamShares'>
  /** GPUs of this moment; undefined: this machine has no GPU for sandboxes. */
  gpus: () => GpuCapacity | undefined
  /** Bytes that are free on the disk of the data folder. */
  freeBytes: () => Promise<number>
  version: string
}

export function addServerGauges(measures: Measures, parts: GaugeParts): void {
  const { health, stores, warm, admission, routes, diskGuard, memoryGuard, gpus, freeBytes, version } = parts
  const single = (value: number) => [{ labels: [], value }]
  measures.gauge({
    name: 'warren_info',
    help: 'Always 1; the label names the version of the server.',
    labelNames: ['version'],
    read: () => [{ labels: [version], value: 1 }],
  })
  measures.gauge({
    name: 'warren_database_up',
    help: '1 if the database answers, 0 if it cannot be reached.',
    labelNames: [],
    read: async () => single((await health.databaseProblem()) === undefined ? 1 : 0),
  })
  measures.gauge({
    name: 'warren_sandboxes',
    help: 'Sandboxes of this server by state; ended ones are not counted.',
    labelNames: ['state'],
    read: async () =>
      (await stores.sandboxes.countByState()).map(({ state, count }) => ({ labels: [state], value: count })),
  })
  measures.gauge({
    name: 'warren_warm_pool_sandboxes',
    help: 'Sandboxes of the warm pool: ready for a create, or booting.',
    labelNames: ['stage'],
    read: () => Object.entries(warm.count()).map(([stage, value]) => ({ labels: [stage], value })),
  })
  measures.gauge({
    name: 'warren_edge_routes',
    help: 'Sandboxes that the edge can reach.',
    labelNames: [],
    read: () => single([...routes.values()].length),
  })
  measures.gauge({
    name: 'warren_starts_waiting',
    help: 'Sandboxes that wait for their turn to start.',
    labelNames: [],
    read: () => single(admission.waiting),
  })
  /** All gauges are read at once, and the database is asked once for those that need this. */
  const lookUps = new JoinedWork<ReturnType<Admission['capacity']>>()
  const capacity = () => lookUps.run('', async () => admission.capacity(await stores.sandboxes.sumActive()))
  measures.gauge({
    name: 'warren_memory_free_bytes',
    help: 'Memory that may still be promised to new sandboxes.',
    labelNames: [],
    read: async () => single((await capacity()).freeMemoryMB * 1024 ** 2),
  })
  measures.gauge({
    name: 'warren_cpus_free',
    help: 'CPUs that may still be promised to new sandboxes.',
    labelNames: [],
    read: async () => single((await capacity()).freeCPU),
  })
  measures.gauge({
    name: 'warren_gpus',
    help: 'GPUs that sandboxes may have, each counted as often as sandboxes can share it.',
    labelNames: ['state'],
    read: () => {
      const { total, free } = gpus() ?? { total: 0, free: 0 }
      return [
        { labels: ['free'], value: free },
        { labels: ['in_use'], value: total - free },
      ]
    },
  })
  measures.gauge({
    name: 'warren_disk_free_bytes',
    help: 'Free space on the disk of the data folder.',
    labelNames: [],
    read: async () => single(await freeBytes()),
  })
  measures.gauge({
    name: 'warren_disk_held_sandboxes',
    help: 'Sandboxes that are frozen because the disk is nearly full.',
    labelNames: [],
    read: () => single(diskGuard.frozenCount),
  })
  measures.gauge({
    name: 'warren_disk_guard_acts',
    help: 'Sandboxes that the disk guard has frozen or ended since the start of the server.',
    labelNames: ['act'],
    read: () => acts({ freeze: diskGuard.counts.frozen, end: diskGuard.counts.ended }),
  })
  measures.gauge({
    name: 'warren_memory_held_sandboxes',
    help: 'Sandboxes that are frozen because the memory is nearly used up.',
    labelNames: [],
    read: () => single(memoryGuard.frozenCount),
  })
  measures.gauge({
    name: 'warren_memory_guard_acts',
    help: 'Sandboxes that the memory guard has frozen, paused or ended since the start of the server.',
    labelNames: ['act'],
    read: () => {
      const { frozen, paused, ended } = memoryGuard.counts
      return acts({ freeze: frozen, pause: paused, end: ended })
    },
  })
  addTeamShares(measures, 'memory', memoryGuard)
  addTeamShares(measures, 'disk', diskGuard)
}

/** For operators who ask which team uses more than its share. Teams are named by their IDs. */
function addTeamShares(
  measures: Measures,
  resource: 'memory' | 'disk',
  guard: Pick<DiskGuard, 'teamShares'>,
): void {
  measures.gauge({
    name: `warren_team_${resource}_bytes`,
    help: `What each team uses of the ${resource}, its fair share, and what it has to give back; told while little is left.`,
    labelNames: ['team', 'kind'],
    read: () =>
      guard.teamShares.flatMap(({ teamID, usedBytes, fairBytes, aboveBytes }) => [
        { labels: [teamID, 'used'], value: usedBytes },
        { labels: [teamID, 'fair'], value: Math.floor(fairBytes) },
        { labels: [teamID, 'above'], value: Math.floor(aboveBytes) },
      ]),
  })
}

const acts = (counts: Record<string, number>) =>
  Object.entries(counts).map(([act, value]) => ({ labels: [act], value }))
