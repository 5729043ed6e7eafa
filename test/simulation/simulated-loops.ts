/** The loops of a simulated node: those of the server, with pauses of their own, so that a history does not consist of rounds. */
import { clusterLoops, domainLoops, type Loop } from '../../src/app/domain/loops.ts'
import { repeat } from '../../src/app/domain/repeat.ts'
import type { Clock } from '../../src/lib/clock.ts'
import type { Log } from '../../src/lib/log.ts'
import type { Plan } from './plan.ts'
import type { Core } from './simulated-node.ts'

type Pauses = Record<string, { usual: number; atRest: number }>

/** Often enough for the lease of a node. */
export const signOfLifeEveryMs = 6000
/** Those of the server otherwise. */
const pauses: Pauses = {
  'empty the warm pool': { usual: signOfLifeEveryMs, atRest: 30_000 },
  'move sandboxes off this node': { usual: signOfLifeEveryMs, atRest: 30_000 },
  'send events to webhooks': { usual: 5000, atRest: 20_000 },
  'look at the memory': { usual: 500, atRest: 5000 },
}
/** Work that takes effect whenever a history asks for a round. */
const roundJobs = ['reconcile', 'reconcile volumes', 'reconcile builds', 'bring bytes to the object store']

type Node = { readonly isAtRest: boolean }

/** The loop at the pace of the simulation; what is under way is joined and not begun again. */
function paced(node: Node, { job, pauseMs, work }: Loop): Loop {
  let round: Promise<unknown> | undefined
  return {
    job,
    get pauseMs() {
      const own = pauses[job]
      return own === undefined ? pauseMs : node.isAtRest ? own.atRest : own.usual
    },
    work: () => {
      round ??= work().finally(() => {
        round = undefined
      })
      return round
    },
  }
}

/** `cluster`: from the moment on at which the node has joined; `domain`: once its first look at what is there is done. */
export function loopsOf(node: Node, core: Core, { hasVolumes, hasBuilds }: Plan) {
  const { membership, drainer, webhooks } = core
  const isIdle = ({ job }: Loop) =>
    (job === 'reconcile volumes' && !hasVolumes) || (job === 'reconcile builds' && !hasBuilds)
  const domain = domainLoops(core, async () => {}).filter((loop) => !isIdle(loop))
  if (webhooks)
    domain.push({ job: 'send events to webhooks', pauseMs: 0, work: () => webhooks.dispatcher.run() })
  const cluster = membership ? clusterLoops(membership, core, drainer) : []
  const pace = (loop: Loop) => paced(node, loop)
  return { cluster: cluster.map(pace), domain: domain.map(pace) }
}

/** Begins one round of what looks at all rows. */
export const beginnerOf = (loops: readonly Loop[], log: Log) => () => {
  for (const { job, work } of loops)
    if (roundJobs.includes(job)) work().catch((err) => log.warn({ err }, `could not ${job}`))
}

/** The guard of the memory, which looks less often than that of a server. */
export function slowGuard(node: Node, { memoryGuard }: Core, times: { clock: Clock; log: Log }) {
  const look = () => memoryGuard.look()
  const loop = paced(node, { job: 'look at the memory', pauseMs: 0, work: look })
  return { look, start: () => void repeat(loop, times) }
}
