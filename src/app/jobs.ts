/** The periodic jobs of the server. */
import { MetricsSampler, sampleEveryMs } from '../core/sandbox/monitoring/metrics.ts'
import { teamSampleEveryMs } from '../core/team/metric.ts'
import { webhookLimits } from '../core/webhook/webhook.ts'
import type { Domain } from './domain.ts'
import { shareBase } from './open-objects.ts'
import type { OpenedPorts } from './ports.ts'
import { repeatEvery } from './repeat.ts'
import type { Closers } from './shutdown.ts'

const reconcileEveryMs = 60_000
/**
 * New bytes are uploaded at once; this interval is for failed uploads, and for those that an earlier process
 * left.
 */
const uploadEveryMs = 60_000
const freeDiskEveryMs = 60_000
const pruneEveryMs = 3_600_000
/** Maximum delay before an event is sent to a webhook. */
const sendEveryMs = 1000
/** A team with more events within a week loses the oldest. */
const mostEventsPerTeam = 100_000
/** How long ended rows, events, deliveries and idempotency keys are stored. */
const keepEndedMs = 7 * 24 * 3_600_000
/** How long the usage of teams is stored. */
const keepTeamMetricsMs = 30 * 24 * 3_600_000
/** How long cached build steps and uploaded files are stored after their last use. */
const keepCacheMs = 30 * 24 * 3_600_000

export function startJobs(domain: Domain, ports: OpenedPorts, closers: Closers): void {
  const { stores, driver, webhooks, clock, log } = ports
  const repeat = (job: string, everyMs: number, work: () => Promise<unknown>) =>
    closers.add(`the job '${job}'`, repeatEvery(everyMs, job, log, work))
  const sampler = new MetricsSampler({
    sandboxes: stores.sandboxes,
    metrics: stores.metrics,
    driver,
    clock,
    log,
  })
  repeat('reconcile', reconcileEveryMs, () => domain.reconciler.run())
  repeat('reconcile volumes', reconcileEveryMs, () => domain.volumes.reconcile())
  repeat('reconcile builds', reconcileEveryMs, () => domain.builds.reconcile())
  repeat('free disk space', freeDiskEveryMs, () => domain.diskSpace.free())
  repeat('prune what is old', pruneEveryMs, () => pruneOld(domain, ports))
  repeat('sample the use of teams', teamSampleEveryMs, () => domain.usage.sample())
  repeat('sample metrics', sampleEveryMs, async () => {
    // The rest of a full disk is for ending sandboxes, not for data that grows by itself.
    if (!domain.diskGuard.isCritical) await sampler.sample()
  })
  startUploads(domain, ports, closers, repeat)
  closers.add('the webhooks', () => webhooks.dispatcher.close())
  repeat('send events to webhooks', sendEveryMs, () => webhooks.dispatcher.run())
}

function startUploads(
  { objectStorage }: Domain,
  { objectStorage: opened, base, baseRootFolder, stores }: OpenedPorts,
  closers: Closers,
  repeat: (job: string, everyMs: number, work: () => Promise<unknown>) => void,
): void {
  if (!objectStorage || !opened) return
  let isBaseShared = false
  repeat('bring bytes to the object store', uploadEveryMs, async () => {
    await objectStorage.uploader.run()
    if (!isBaseShared) isBaseShared = await shareBase(base, baseRootFolder, opened, stores)
  })
  repeat('sweep the object store', pruneEveryMs, () => objectStorage.sweeper.run())
  closers.add('uploads', () => objectStorage.uploader.close())
  objectStorage.uploader.nudge()
}

async function pruneOld(domain: Domain, { stores, logs, clock }: OpenedPorts): Promise<void> {
  const now = clock.now()
  const endedBefore = now - keepEndedMs
  await stores.sandboxes.prune(endedBefore)
  await stores.metrics.prune(endedBefore)
  await stores.teamMetrics.prune(clock.now() - keepTeamMetricsMs)
  await stores.events.prune(endedBefore, mostEventsPerTeam)
  await stores.deliveries.prune({ endedBefore, mostPerWebhook: webhookLimits.deliveries, now })
  await logs.prune(endedBefore)
  await domain.pruner.run({ before: clock.now() - keepCacheMs, dryRun: false })
}
