/**
 * Kinds of histories that meet faults which the usual ones hardly ever meet: each has few verbs, and what must come
 * together for its faults comes often. The rest of the plan is as the seed says.
 */
import { earlyMishaps, earlyVerbs, resumeEarly } from './early-resume-profile.ts'
import { ownerProfiles } from './owner-profiles.ts'
import { type Mishap, type Plan, type ProfileName, planRequest, type Verb } from './plan.ts'
import { setGenerousLimits, setTeams } from './plan-teams.ts'
import type { Random } from './random.ts'
import { addWebhooks, webhookVerbs } from './webhook-profile.ts'

type Range = readonly [min: number, max: number]

export type Profile = {
  verbs: Partial<Record<Verb, number>>
  requests: Range
  clients: Range
  mishaps: Partial<Record<Mishap['kind'], number>>
  mishapCount: Range
  timeoutsMs?: readonly number[]
  /** What else is different; the plan has its actions by then. */
  change?: (plan: Plan, random: Random) => void
}

const lasting = [300_000, 3_600_000]
const noFaults = { fails: 0, 'answer-lost': 0, hangs: 0 }

const mishapsOf = ({ actions }: Plan): Mishap[] =>
  actions.flatMap((action) => ('mishap' in action ? [action.mishap] : []))

/** Each verb begins at its time, and mishaps at theirs, so that what comes later finds what it is about. */
function inPhases(
  plan: Plan,
  random: Random,
  times: Partial<Record<Verb, number>> & { mishap: number },
): void {
  plan.keepsTime = true
  plan.haste = 0.02
  for (const action of plan.actions) {
    const from = 'mishap' in action ? times.mishap : (times[action.request.verb] ?? 0)
    action.atMs = from + (from > 0 ? random.below(2000) : 0)
    if ('mishap' in action) action.mishap.after = 0
  }
  plan.actions.sort((one, other) => one.atMs! - other.atMs!)
}

/** The rest is mostly about one sandbox. */
function beginWithCreate(plan: Plan, random: Random): void {
  const create = { request: { ...planRequest(random, 'create', 0), timeoutMs: 3_600_000 }, number: -1 }
  plan.actions.unshift(create)
}

export const profiles: Record<ProfileName, Profile> = {
  'burst in an outage': {
    verbs: { create: 20, 'create with a key': 2, kill: 1 },
    requests: [10, 18],
    clients: [5, 8],
    timeoutsMs: [300_000],
    mishaps: { 'short outage': 1 },
    mishapCount: [1, 1],
    change(plan, random) {
      setTeams(plan, random.between(2, 3))
      setGenerousLimits(plan)
      Object.assign(plan, { keepsTime: true, haste: 0.02, warmSandboxes: random.between(1, 3) })
      plan.faults = { insertWithinLimits: { fails: random.pick([0, 0.4]), 'answer-lost': 0.1 } }
      // The first fill the pool. Then the burst comes, the outage into the middle of it, and others when its tries are over.
      const burst = 5000
      const before = random.between(3, 8)
      for (const [at, action] of plan.actions.entries()) {
        action.atMs = at < 2 ? 0 : at < 2 + before ? burst : burst + 3050 + random.below(3000)
        if (!('mishap' in action)) continue
        action.atMs = burst
        action.mishap.after = 2 + random.below(before)
      }
      plan.actions.sort((one, other) => (one.atMs ?? 0) - (other.atMs ?? 0))
    },
  },
  'overlapping rounds': {
    verbs: { create: 3, pause: 14, resume: 5, connect: 12, kill: 1, 'set-network': 3, snapshot: 1, write: 2 },
    requests: [12, 30],
    clients: [2, 4],
    timeoutsMs: lasting,
    mishaps: { round: 12, crash: 1, 'short outage': 1 },
    mishapCount: [6, 14],
    change(plan, random) {
      beginWithCreate(plan, random)
      plan.snapshotMemory = random.chance(0.3)
      plan.holdsReads = 1
      plan.haste = random.pick([0.02, 0.1, 0.4])
      plan.warmSandboxes = 0
      plan.faults.middle = { fails: random.pick([0, 0.4]) }
      plan.faults.move = { 'answer-lost': random.pick([0, 0.3]) }
      if (random.chance(0.5)) plan.faults.driver = { ...noFaults, 'answer-lost': 0.1 }
    },
  },
  'deaths in rounds': {
    verbs: { create: 5, pause: 10, connect: 8, kill: 1, 'set-network': 3, snapshot: 2, fork: 1, write: 2 },
    requests: [8, 20],
    clients: [2, 4],
    timeoutsMs: lasting,
    mishaps: { death: 6, round: 6, crash: 1 },
    mishapCount: [3, 8],
    change(plan) {
      plan.holdsReads = 0.5
    },
  },
  'egress policies': {
    verbs: { create: 3, 'set-network': 16, pause: 4, connect: 5, kill: 1, write: 1 },
    requests: [8, 22],
    clients: [1, 4],
    timeoutsMs: lasting,
    mishaps: { round: 6, crash: 3, 'short outage': 1 },
    mishapCount: [2, 7],
    change(plan, random) {
      beginWithCreate(plan, random)
      plan.faults.middle = { fails: random.pick([0, 0.3]) }
      plan.faults.limitEgress = { 'answer-lost': random.pick([0, 0.2]) }
      plan.holdsReads = random.pick([0, 1])
      plan.snapshotMemory = random.chance(0.5)
      if (random.chance(0.5)) return
      // A process that cannot find out about a sandbox at its start opens no route to it until a later round.
      setTeams(plan, 1)
      Object.assign(plan, { holdsReads: 1, hasService: false, warmSandboxes: 0 })
      plan.faults = { recover: { fails: 0.4 } }
      plan.delayedMethods = ['listUnended', 'recover']
      plan.actions = plan.actions.filter((action) => 'mishap' in action || action.request.verb !== 'create')
      beginWithCreate(plan, random)
      for (const [at, mishap] of mishapsOf(plan).entries()) mishap.kind = at === 0 ? 'crash' : 'round'
      inPhases(plan, random, { mishap: 6000, 'set-network': 6000, pause: 9000, connect: 9000 })
      for (const action of plan.actions)
        if ('mishap' in action && action.mishap.kind === 'crash') action.atMs = 3000
      plan.actions.sort((one, other) => one.atMs! - other.atMs!)
    },
  },
  volumes: {
    verbs: {
      'create a volume': 8,
      'delete a volume': 6,
      'create with a volume': 8,
      kill: 4,
      pause: 3,
      connect: 3,
      list: 1,
    },
    requests: [8, 24],
    clients: [2, 5],
    mishaps: { round: 12, crash: 2, 'short outage': 1, reboot: 1 },
    mishapCount: [2, 10],
    change(plan, random) {
      plan.hasVolumes = true
      plan.holdsReads = random.pick([0, 1])
      // Otherwise a round has hardly begun when the creates are over.
      if (random.chance(0.7)) plan.delayedMethods = ['listAll']
      plan.faults.store = { fails: random.pick([0, 0.05]), 'answer-lost': random.pick([0, 0.1]) }
      plan.faults.volumes = { fails: random.pick([0, 0.1]) }
    },
  },
  builds: {
    verbs: { build: 8, create: 5, 'create from a snapshot': 6, 'delete a snapshot': 4, kill: 3, prune: 2 },
    requests: [4, 14],
    clients: [2, 4],
    mishaps: { round: 3, crash: 2, death: 2, 'short outage': 1 },
    mishapCount: [0, 4],
    change(plan, random) {
      plan.hasBuilds = true
      plan.faults.driver = { fails: random.pick([0, 0.1]), hangs: random.pick([0, 0.03]) }
    },
  },
  'many due': {
    verbs: {},
    requests: [0, 0],
    clients: [1, 1],
    mishaps: {},
    mishapCount: [0, 0],
    change(plan, random) {
      setTeams(plan, 1)
      setGenerousLimits(plan)
      Object.assign(plan, { keepsTime: true, haste: 0, warmSandboxes: 0, hasService: false, holdsAnswers: 0 })
      Object.assign(plan, { slowSnapshotsMs: 20_000, snapshotMemory: true, faults: {} })
      plan.dueSoon = { pauses: random.between(59, 63), ends: random.between(1, 3) }
    },
  },
  'full machine': {
    verbs: { create: 10, kill: 3, pause: 3, connect: 3, fork: 1 },
    requests: [6, 16],
    clients: [2, 4],
    timeoutsMs: lasting,
    mishaps: { 'full disk': 1 },
    mishapCount: [1, 3],
    change(plan) {
      plan.warmSandboxes = 0
      plan.faults = { machine: { fails: 0.4 } }
      setGenerousLimits(plan)
    },
  },
  drains: {
    verbs: { create: 8, 'set-timeout': 5, refresh: 4, connect: 5, pause: 1, write: 6 },
    requests: [8, 24],
    clients: [2, 4],
    timeoutsMs: [150_000, 3_600_000],
    mishaps: { drain: 8, partition: 3, 'short outage': 3, crash: 2, absence: 2, gone: 2, 'peers apart': 1 },
    mishapCount: [3, 7],
    change(plan, random) {
      beginWithCreate(plan, random)
      setGenerousLimits(plan)
      plan.holdsReads = random.pick([0, 0, 1])
      plan.faults.store = random.chance(0.5) ? {} : { fails: 0.02, 'answer-lost': 0.02 }
      plan.faults.driver = {}
      plan.snapshotMemory = true
      // The pool of a draining node takes long to empty.
      if (random.chance(0.2)) Object.assign(plan, { slowStopsMs: 20_000, warmSandboxes: 2 })
      inPhases(plan, random, { mishap: 2000 })
      // What else happens meets the moves, which begin when the node sees that it is to be drained.
      for (const action of plan.actions) {
        const isDrain = 'mishap' in action && action.mishap.kind === 'drain'
        const isCreate = 'request' in action && action.request.verb === 'create'
        if (!isDrain && !isCreate) action.atMs = 3000 + random.below(15_000)
      }
      plan.actions.sort((one, other) => one.atMs! - other.atMs!)
    },
  },
  strangers: {
    verbs: { create: 5, pause: 6, 'ask as a stranger': 8, connect: 1, write: 1 },
    requests: [10, 22],
    clients: [3, 5],
    timeoutsMs: lasting,
    mishaps: { absence: 4, standstill: 2, partition: 1 },
    mishapCount: [1, 3],
    change(plan, random) {
      setTeams(plan, 2)
      inPhases(plan, random, { create: 0, pause: 2000, mishap: 5000, 'ask as a stranger': 17_000 })
    },
  },
  layers: {
    verbs: { build: 12, 'delete a snapshot': 8, prune: 6, 'create from a snapshot': 1 },
    requests: [10, 26],
    clients: [2, 4],
    mishaps: { round: 2, crash: 1, 'no object store': 1 },
    mishapCount: [0, 2],
    change(plan) {
      plan.hasBuilds = true
      plan.holdsReads = 1
      plan.delayedMethods = ['listNeeded']
      for (const part of ['driver', 'agent']) plan.faults[part] = {}
    },
  },
  quarantine: {
    verbs: { create: 4, pause: 6, write: 1, 'recover a snapshot': 10, 'discard a snapshot': 10 },
    requests: [14, 30],
    clients: [3, 6],
    timeoutsMs: lasting,
    mishaps: { forgotten: 1 },
    mishapCount: [3, 3],
    change(plan, random) {
      setGenerousLimits(plan)
      plan.holdsReads = random.pick([0, 0.3])
      plan.faults = { objects: { fails: 1 } }
      const operator = { 'recover a snapshot': 95_000, 'discard a snapshot': 95_000 }
      inPhases(plan, random, { create: 0, pause: 2000, mishap: 5000, ...operator })
      // Each node is, for longer than its lease, still or cut off.
      for (const [at, mishap] of mishapsOf(plan).entries())
        Object.assign(mishap, { node: at, pick: 0.4 + 0.6 * mishap.pick })
    },
  },
  'failed resumes': {
    verbs: {},
    requests: [0, 0],
    clients: [1, 2],
    mishaps: {},
    mishapCount: [0, 0],
    change(plan, random) {
      setTeams(plan, 1)
      setGenerousLimits(plan)
      Object.assign(plan, { writesEarly: true, snapshotMemory: true, keepsTime: true, haste: 0.02 })
      plan.faults = { initialize: { fails: random.pick([0.4, 0.6]) } }
      const ask = (verb: Verb) => ({ request: { ...planRequest(random, verb, 0), timeoutMs: 3_600_000 } })
      const happen = (kind: Mishap['kind']) => ({
        mishap: { kind, node: random.below(plan.nodes), pick: random.next() / 10, after: 0, jumpMs: 0 },
      })
      // Again and again it is paused, no node gives a sign of life, and every door is asked for it.
      const again = Array.from({ length: random.between(3, 4) }, () => [
        { ...ask('pause'), afterMs: 500 },
        { ...happen('lapse'), afterMs: 500 },
        { ...happen('round'), afterMs: random.pick([11_500, 12_500]) },
      ]).flat()
      const creates = Array.from({ length: 3 }, () => ({ ...ask('create'), afterMs: 100 }))
      let atMs = 0
      plan.actions = [...creates, ...again].map(({ afterMs, ...action }, number) => {
        atMs += afterMs
        return { ...action, number, atMs }
      })
    },
  },
  'volumes of a cluster': {
    verbs: {
      'create a volume': 4,
      'create with a volume': 8,
      pause: 8,
      connect: 6,
      resume: 2,
      write: 1,
      'delete a volume': 1,
    },
    requests: [12, 26],
    clients: [2, 4],
    timeoutsMs: lasting,
    mishaps: { absence: 3, drain: 2, standstill: 1 },
    mishapCount: [1, 3],
    change(plan, random) {
      plan.hasVolumes = true
      const late = { connect: 18_000, resume: 18_000, 'delete a volume': 18_000 }
      inPhases(plan, random, { 'create with a volume': 2000, pause: 4000, mishap: 7000, ...late })
    },
  },
  webhooks: {
    verbs: webhookVerbs,
    requests: [8, 16],
    clients: [2, 4],
    timeoutsMs: [20_000, ...lasting],
    mishaps: { crash: 4, 'short outage': 3, jump: 1 },
    mishapCount: [0, 4],
    change(plan, random) {
      addWebhooks(plan, random)
      // More than a day: what fails from then on is given up.
      for (const mishap of mishapsOf(plan)) if (mishap.kind === 'jump') mishap.jumpMs = 25 * 3_600_000
    },
  },
  'used-up memory': {
    verbs: { create: 6, pause: 2, connect: 3, resume: 1, write: 4, fork: 3, 'set-timeout': 1, kill: 1 },
    ...{ requests: [8, 16], clients: [2, 4], timeoutsMs: lasting },
    ...{ mishaps: { 'little memory': 4, crash: 4, round: 1, death: 1 }, mishapCount: [2, 5] },
    change(plan, random) {
      beginWithCreate(plan, random)
      setGenerousLimits(plan)
      plan.warmSandboxes = random.pick([0, 0, 1])
      plan.faults.machine = { fails: random.pick([0, 0.1]) }
      plan.faults.memoryUse = { hangs: random.pick([0, 0.1]) }
      plan.faults.freeze = { fails: random.pick([0, 0.5]) }
      inPhases(plan, random, { create: 0, write: 500, mishap: 3000 })
      const [first] = mishapsOf(plan)
      first!.kind = 'little memory'
      // Requests and mishaps meet sandboxes that are frozen or being paused.
      for (const action of plan.actions) {
        const isEarly = 'request' in action && ['create', 'write'].includes(action.request.verb)
        if (!isEarly && !('mishap' in action && action.mishap === first))
          action.atMs = 3000 + random.below(25_000)
      }
      plan.actions.push({
        request: planRequest(random, 'list', 0),
        number: plan.actions.length,
        atMs: 32_000,
      })
      plan.actions.sort((one, other) => one.atMs! - other.atMs!)
    },
  },
  'webhooks of a cluster': {
    verbs: webhookVerbs,
    requests: [8, 16],
    clients: [2, 4],
    timeoutsMs: [20_000, ...lasting],
    mishaps: { crash: 3, 'short outage': 2, absence: 3, standstill: 3, partition: 3 },
    mishapCount: [1, 4],
    change: addWebhooks,
  },
  'early resumes': {
    verbs: earlyVerbs,
    requests: [4, 16],
    clients: [3, 5],
    timeoutsMs: [60_000, ...lasting],
    mishaps: earlyMishaps,
    mishapCount: [1, 5],
    change: resumeEarly,
  },
  ...ownerProfiles,
}

/** Puts the requests and mishaps of the profile in place of those of the plan. */
export function applyProfile(plan: Plan, name: ProfileName, random: Random): void {
  const { verbs, requests, clients, mishaps, mishapCount, timeoutsMs, change } = profiles[name]
  plan.profile = name
  plan.clients = random.between(...clients)
  const asked = Array.from({ length: random.between(...requests) }, () => {
    const request = planRequest(random, random.weighted(verbs), random.below(plan.clients))
    if (timeoutsMs && request.timeoutMs > 0) request.timeoutMs = random.pick(timeoutsMs)
    return { request }
  })
  const happenings = Array.from({ length: random.between(...mishapCount) }, () => ({
    mishap: {
      kind: random.weighted(mishaps),
      node: random.below(plan.nodes),
      pick: random.next(),
      after: random.between(1, asked.length),
      jumpMs: 0,
    },
  }))
  plan.actions = [...asked, ...happenings].map((action, number) => ({ ...action, number }))
  change?.(plan, random)
}
