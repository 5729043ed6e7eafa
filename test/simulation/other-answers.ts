/** How requests are answered that are about volumes, webhooks, builds or the quarantine, and those of strangers. */
import type { EventType } from '../../src/core/event/event.ts'
import { type Answers, choose, sandboxAnswers } from './client-answers.ts'
import { shortID } from './parked-calls.ts'
import { type Asked, create, stillHeard } from './reported.ts'
import { buildOnLayer } from './simulated-builds.ts'
import { Violation } from './violation.ts'
import { webhookSecret } from './webhook-watch.ts'

const smallSizes = { cpuCount: 2, memoryMB: 512, diskMB: 1024 }

const volumeAnswers = {
  /** A client chooses the name by its key, so that names are met again. */
  async 'create a volume'(asked) {
    const { core, team, ask, simulation } = asked
    const { volumeID, name } = await core.volumes.create(team, ask.key)
    if (!stillHeard(asked)) return ''
    const { volumes } = simulation.ledger
    volumes.set(team.teamID, [...(volumes.get(team.teamID) ?? []), { volumeID, name, node: ask.node }])
    return volumeID
  },

  async 'delete a volume'({ core, team, ask, simulation }) {
    const known = simulation.ledger.volumes.get(team.teamID) ?? []
    const chosen = choose(known, ask.pick)
    if (!chosen) return 'there is none'
    await core.volumes.delete(team, chosen.volumeID)
    simulation.ledger.volumes.set(
      team.teamID,
      known.filter((one) => one !== chosen),
    )
    return `deleted ${chosen.volumeID}`
  },

  async 'create with a volume'(asked) {
    const { simulation, team, ask } = asked
    const chosen = choose(simulation.ledger.volumes.get(team.teamID) ?? [], ask.pick)
    return create(asked, 'base', undefined, chosen && [{ name: chosen.name, path: '/mnt/data' }])
  },
} satisfies Partial<Answers>

/** Some want everything, some only what comes first and last. */
const wantedEvents: readonly (readonly EventType[])[] = [
  ['created', 'updated', 'paused', 'resumed', 'checkpointed', 'killed'],
  ['created', 'killed'],
  ['paused', 'resumed', 'killed'],
]

const webhookAnswers = {
  async 'create a webhook'(asked) {
    const { core, team, ask, simulation } = asked
    const events = choose(wantedEvents.toReversed(), ask.pick)!
    const { webhookID } = await core.webhooks!.service.create(team, {
      name: ask.key,
      url: `https://${team.teamID}.test/`,
      enabled: true,
      events,
      secret: webhookSecret,
    })
    if (!stillHeard(asked)) return ''
    const { webhooks } = simulation.ledger
    webhooks.set(team.teamID, [...(webhooks.get(team.teamID) ?? []), webhookID])
    return webhookID
  },

  async 'delete a webhook'({ core, team, ask, simulation }) {
    const known = simulation.ledger.webhooks.get(team.teamID) ?? []
    const chosen = choose(known, ask.pick)
    if (!chosen) return 'there is none'
    await core.webhooks!.service.delete(team, chosen)
    simulation.webhooks.noteDeletionReported(chosen)
    simulation.ledger.webhooks.set(
      team.teamID,
      known.filter((one) => one !== chosen),
    )
    return `deleted ${chosen}`
  },
} satisfies Partial<Answers>

const operatorAnswers = {
  async build({ core, team, ask, simulation }) {
    const { builds } = core
    const request = buildOnLayer(ask.pick, simulation.plan.hasUnstorableLayer)
    const { template, build } = await builds.request(
      team,
      { unnamed: true },
      ['default'],
      smallSizes,
      request,
    )
    await builds.start(team, template.templateID, build.buildID)
    const { snapshots, snapshotNodes } = simulation.ledger
    snapshotNodes.set(template.templateID, ask.node)
    snapshots.set(team.teamID, [...(snapshots.get(team.teamID) ?? []), template.templateID])
    return template.templateID
  },

  async 'recover a snapshot'(asked) {
    const found = quarantinedOf(asked)
    if (!found) return 'there is none'
    asked.ask.sandboxID = found.sandboxID
    await asked.core.quarantine.recover(found.name)
    return `recovered ${found.name}`
  },

  async 'discard a snapshot'(asked) {
    const found = quarantinedOf(asked)
    if (!found) return 'there is none'
    asked.ask.discards = found.name
    await asked.core.quarantine.remove(found.name)
    return `discarded ${found.name}`
  },

  /** For every request, the sandbox of another team does not exist. */
  async 'ask as a stranger'({ core, team, ask, simulation }) {
    const { service } = core
    const [sandboxID, wish] = [ask.sandboxID!, { timeoutMs: 60_000, memory: true }]
    const verbs = [
      () => service.connect(team, sandboxID, wish),
      () => service.kill(team, sandboxID),
      () => service.pause(team, sandboxID, { memory: true, requireHealthyAgent: false }),
      () => service.setTimeout(team, sandboxID, 0),
    ]
    const outcome = await verbs[Math.floor(ask.pick * verbs.length)]!().then(
      () => 'was answered',
      (error: Error) => error.message,
    )
    if (outcome === 'was answered')
      simulation.report(new Violation('stranger', `${team.teamID} may do something to ${shortID(sandboxID)}`))
    return outcome
  },
} satisfies Partial<Answers>

/** Mostly the newest of its node, so that two meet at the same. */
function quarantinedOf({ simulation, ask }: Asked) {
  const { name: nodeName } = simulation.nodes[ask.node]!
  const here = [...simulation.watch.quarantined].filter(
    ([, { nodeID, isDiscarded }]) => nodeID === nodeName && !isDiscarded,
  )
  const name = choose(here, ask.pick)?.[0]
  return name === undefined ? undefined : { name, sandboxID: /^(i[a-z0-9]{20})-/.exec(name)?.[1] }
}

export const answers: Answers = {
  ...sandboxAnswers,
  ...volumeAnswers,
  ...webhookAnswers,
  ...operatorAnswers,
}
