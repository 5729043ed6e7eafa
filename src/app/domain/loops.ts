/**
 * What the server does when it comes up, and what it then repeats as long as it lives. The simulation does the same in the same
 * order, with pauses of its own.
 */
import type { Drainer } from '../../core/cluster/drainer.ts'
import type { Membership } from '../../core/cluster/membership.ts'
import { renewEveryMs } from '../../core/cluster/node.ts'
import type { TemplateBuild } from '../../core/template/template.ts'
import type { Log } from '../../lib/log.ts'
import type { Domain } from './domain.ts'

export type Loop = {
  job: string
  /** From the end of one round to the next. */
  pauseMs: number
  work: () => Promise<unknown>
}

const reconcileEveryMs = 60_000
const freeDiskEveryMs = 60_000
/** New bytes are uploaded at once; this is for failed uploads, and for those that an earlier process left. */
const uploadEveryMs = 60_000
const sweepEveryMs = 3_600_000

type Guard = Pick<Domain['memoryGuard'], 'look' | 'start'>

type Left = {
  /** Sandboxes that were ended to make space for the start. */
  endedForSpace: readonly string[]
  guards: readonly Guard[]
  /** The template that the pool always has. */
  base: TemplateBuild
}

/** Finishes or undoes the unfinished operations of an earlier process, before the first request is served. */
export async function repair(domain: Domain, { endedForSpace, guards, base }: Left): Promise<void> {
  for (const sandboxID of endedForSpace) await domain.upkeep.endRunning(sandboxID, 'disk_full')
  // The guards look before the reconciler runs, which would otherwise thaw sandboxes that must stay frozen.
  for (const guard of guards) {
    await guard.look()
    guard.start()
  }
  await domain.builds.reconcile()
  await domain.reconciler.run()
  await domain.volumes.reconcile()
  domain.warm.keepReady(base)
}

/** `afterUpload`: what is uploaded besides. */
export function domainLoops(domain: Domain, afterUpload: () => Promise<unknown>): Loop[] {
  const { reconciler, volumes, builds, diskSpace, objectStorage } = domain
  const loops: Loop[] = [
    { job: 'reconcile', pauseMs: reconcileEveryMs, work: () => reconciler.run() },
    { job: 'reconcile volumes', pauseMs: reconcileEveryMs, work: () => volumes.reconcile() },
    { job: 'reconcile builds', pauseMs: reconcileEveryMs, work: () => builds.reconcile() },
    { job: 'free disk space', pauseMs: freeDiskEveryMs, work: () => diskSpace.free() },
  ]
  if (!objectStorage) return loops
  const { uploader, sweeper } = objectStorage
  const upload = async () => {
    await uploader.run()
    await afterUpload()
  }
  loops.push(
    { job: 'bring bytes to the object store', pauseMs: uploadEveryMs, work: upload },
    { job: 'sweep the object store', pauseMs: sweepEveryMs, work: () => sweeper.run() },
  )
  return loops
}

/** Beside the signs of life of the membership, which wait for nothing. */
export function clusterLoops(membership: Membership, { warm }: Domain, drainer: Drainer | undefined): Loop[] {
  const fitPool = () => warm.setDraining(membership.isDraining)
  const loops: Loop[] = [
    { job: 'empty the warm pool', pauseMs: renewEveryMs, work: fitPool },
    { job: 'end late creates', pauseMs: reconcileEveryMs, work: () => membership.endLateCreates() },
  ]
  if (drainer)
    loops.push({ job: 'move sandboxes off this node', pauseMs: renewEveryMs, work: () => drainer.run() })
  return loops
}

/** Ends the sandboxes of a forgotten node now, which otherwise waits for the next round of the loop. */
export async function reconcileAtOnce({ reconciler, volumes }: Domain, log: Log): Promise<void> {
  try {
    await reconciler.run()
    await volumes.reconcile()
  } catch (error) {
    log.warn({ err: error }, 'The node could not end its sandboxes at once; the next round tries again.')
  }
}
