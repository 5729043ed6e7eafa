/** The periodic jobs of the server: the loops, and those that only look at what is there or remove what is old. */
import { MetricsSampler, sampleEveryMs } from '../../core/sandbox/monitoring/metrics.ts'
import { teamSampleEveryMs } from '../../core/team/metric.ts'
import { webhookLimits } from '../../core/webhook/webhook.ts'
import type { Domain } from '../domain/domain.ts'
import { domainLoops, type Loop } from '../domain/loops.ts'
import { repeat } from '../domain/repeat.ts'
import type { OpenedPorts } from '../ports/ports.ts'
import type { Closers } from '../process/shutdown.ts'
import { shareBase } from '../storage/open-objects.ts'

const pruneEveryMs = 3_600_000
/** Maximum delay before an event is sent to a webhook. */
const sendEveryMs = 1000
/** A team with more events within a week loses the oldest. */
const maxEventsPerTeam = 100_000
/** How long ended rows, events, deliveries and idempotency keys are stored. */
const keepEndedMs = 7 * 24 * 3_600_000
/** A team may exceed its budget by what it starts within this time. */
const countEveryMs = 60_000
const measureEveryMs = 10 * 60_000
/** How long the usage of teams is stored. */
const keepTeamMetricsMs = 30 * 24 * 3_600_000
/** How long cached build steps and uploaded files are stored after their last use. */
const keepCacheMs = 30 * 24 * 3_600_000

export function startJobs(
  domain: Domain,
  ports: OpenedPorts,
  { auditDays }: { auditDays: number },
  closers: Closers,
): void {
  const { stores, driver, webhooks, clock, log } = ports
  const sampler = new MetricsSampler({
    sandboxes: stores.sandboxes,
    metrics: stores.metrics,
    onSent: ({ teamID, ownerPersonID: personID = null }, bytes) =>
      domain.usageCounter.noteSent({ teamID, personID }, bytes),
    driver,
    clock,
    log,
  })
  const sample = async () => {
    // The rest of a full disk is for ending sandboxes, not for data that grows by itself.
    if (!domain.diskGuard.isCritical) await sampler.sample()
  }
  const loops: Loop[] = [
    ...domainLoops(domain, baseSharer(ports)),
    { job: 'prune what is old', pauseMs: pruneEveryMs, work: () => pruneOld(domain, ports, auditDays) },
    { job: 'sample the use of teams', pauseMs: teamSampleEveryMs, work: () => domain.usage.sample() },
    { job: 'count what teams used', pauseMs: countEveryMs, work: () => countUsage(domain) },
    {
      job: 'measure what teams store',
      pauseMs: measureEveryMs,
      work: () => domain.usageCounter.measureStored(),
    },
    { job: 'sample metrics', pauseMs: sampleEveryMs, work: sample },
  ]
  for (const loop of loops) closers.add(`the job '${loop.job}'`, repeat(loop, ports))
  const { objectStorage } = domain
  if (objectStorage) {
    closers.add('uploads', () => objectStorage.uploader.close())
    objectStorage.uploader.nudge()
  }
  closers.add('the webhooks', () => webhooks.dispatcher.close())
  const send = {
    job: 'send events to webhooks',
    pauseMs: sendEveryMs,
    work: () => webhooks.dispatcher.run(),
  }
  closers.add(`the job '${send.job}'`, repeat(send, ports))
}

/** Uploads the base template until it is there. */
function baseSharer({ objectStorage, base, baseRootFolder, stores }: OpenedPorts): () => Promise<void> {
  let isShared = false
  return async () => {
    if (objectStorage && !isShared) isShared = await shareBase(base, baseRootFolder, objectStorage, stores)
  }
}

async function countUsage({ usageCounter, budgets }: Domain): Promise<void> {
  await usageCounter.count()
  await budgets.look()
}

async function pruneOld(
  domain: Domain,
  { stores, logs, clock, signIn }: OpenedPorts,
  auditDays: number,
): Promise<void> {
  const now = clock.now()
  const endedBefore = now - keepEndedMs
  // Events must be counted before they are removed.
  await domain.usageCounter.count()
  await domain.usageCounter.prune()
  await stores.sandboxes.prune(endedBefore)
  await stores.metrics.prune(endedBefore)
  await stores.teamMetrics.prune(clock.now() - keepTeamMetricsMs)
  await signIn?.sessions.prune()
  await stores.events.prune(endedBefore, maxEventsPerTeam)
  await stores.deliveries.prune({ endedBefore, maxPerWebhook: webhookLimits.deliveries, now })
  await logs.prune(endedBefore)
  await domain.audit.prune(now - auditDays * 24 * 3_600_000)
  await domain.pruner.run({ before: clock.now() - keepCacheMs, dryRun: false })
}
