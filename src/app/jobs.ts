/** What the server does again and again while it runs. */
import { MetricsSampler, sampleEveryMs } from '../core/sandbox/metrics.ts'
import { teamSampleEveryMs } from '../core/team/metric.ts'
import type { Domain, DomainPorts } from './domain.ts'
import { repeatEvery } from './repeat.ts'
import type { Closers } from './shutdown.ts'

const reconcileEveryMs = 60_000
const freeDiskEveryMs = 60_000
const pruneEveryMs = 3_600_000
/** Ended rows and idempotency keys are kept this long. */
const keepEndedMs = 7 * 24 * 3_600_000
/** What teams used is kept this long. */
const keepTeamMetricsMs = 30 * 24 * 3_600_000
/** Cached steps of builds, and uploaded files, are kept this long after their last use. */
const keepCacheMs = 30 * 24 * 3_600_000

export function startJobs(domain: Domain, ports: DomainPorts, closers: Closers): void {
  const { stores, driver, clock, log } = ports
  const repeat = (job: string, everyMs: number, work: () => Promise<unknown>) =>
    closers.add(`the job '${job}'`, repeatEvery(everyMs, job, log, work))
  const sampler = new MetricsSampler({ ...stores, driver, clock, log })
  repeat('reconcile', reconcileEveryMs, () => domain.reconciler.run())
  repeat('reconcile volumes', reconcileEveryMs, () => domain.volumes.reconcile())
  repeat('reconcile builds', reconcileEveryMs, () => domain.builds.reconcile())
  repeat('free disk space', freeDiskEveryMs, () => domain.diskSpace.free())
  repeat('prune what is old', pruneEveryMs, () => pruneOld(domain, ports))
  repeat('sample the use of teams', teamSampleEveryMs, () => domain.usage.sample())
  repeat('sample metrics', sampleEveryMs, () => sampler.sample())
}

async function pruneOld(domain: Domain, { stores, logs, clock }: DomainPorts): Promise<void> {
  const endedBefore = clock.now() - keepEndedMs
  await stores.sandboxes.prune(endedBefore)
  await stores.metrics.prune(endedBefore)
  await stores.teamMetrics.prune(clock.now() - keepTeamMetricsMs)
  await logs.prune(endedBefore)
  await domain.pruner.run({ before: clock.now() - keepCacheMs, dryRun: false })
}
