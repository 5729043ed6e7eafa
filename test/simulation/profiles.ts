/**
 * Kinds of histories that meet faults which the usual ones hardly ever meet: each has few verbs, and what must come
 * together for its faults comes often. The rest of the plan is as the seed says.
 */
import { type Mishap, type Plan, type ProfileName, planRequest, type Verb } from './plan.ts'
import type { Random } from './random.ts'

type Range = readonly [least: number, most: number]

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
const generous = { maxSandboxes: 100, maxCPU: 1000, maxMemoryMB: 100_000, maxLifetimeHours: 24 }
const noFaults = { fails: 0, 'answer-lost': 0, hangs: 0 }

/** Limits keep nobody from anything. */
function setGenerousLimits(plan: Plan): void {
  for (const team of plan.teams) team.limits = generous
}

function setTeams(plan: Plan, count: number): void {
  plan.teams = Array.from({ length: count }, (_, at) => ({
    slug: `team${at}`,
    limits: (plan.teams[at] ?? plan.teams[0]!).limits,
  }))
}

/** The rest is mostly about one sandbox. */
function beginWithCreate(plan: Plan, random: Random): void {
  const create = { request: { ...planRequest(random, 'create', 0), timeoutMs: 3_600_000 }, number: -1 }
  plan.actions.unshift(create)
}

export const profiles: Record<ProfileName, Profile> = {
  'burst in an outage': {
    verbs: { create: 20, 'create with a key': 2, kill: 1 },
    ...{ requests: [10, 18], clients: [5, 8], timeoutsMs: [300_000] },
    ...{ mishaps: { 'short outage': 1 }, mishapCount: [1, 1] },
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
    ...{ requests: [12, 30], clients: [2, 4], timeoutsMs: lasting },
    ...{ mishaps: { round: 12, crash: 1, 'short outage': 1 }, mishapCount: [6, 14] },
    change(plan, random) {
      beginWithCreate(plan, random)
      plan.snapshotMemory = random.chance(0.3)
      plan.holdsReads = 1
      plan.haste = random.pick([0.02, 0.1])
      plan.warmSandboxes = 0
      plan.faults.middle = { fails: random.pick([0, 0.2]) }
      if (random.chance(0.5)) plan.faults.driver = { ...noFaults, 'answer-lost': 0.1 }
    },
  },
  'deaths in rounds': {
    verbs: { create: 5, pause: 10, connect: 8, kill: 1, 'set-network': 3, snapshot: 2, fork: 1, write: 2 },
    ...{ requests: [8, 20], clients: [2, 4], timeoutsMs: lasting },
    ...{ mishaps: { death: 6, round: 6, crash: 1 }, mishapCount: [3, 8] },
    change(plan) {
      plan.holdsReads = 0.5
    },
  },
  'egress policies': {
    verbs: { create: 3, 'set-network': 16, pause: 4, connect: 5, kill: 1, write: 1 },
    ...{ requests: [8, 22], clients: [1, 4], timeoutsMs: lasting },
    ...{ mishaps: { round: 6, crash: 3, 'short outage': 1 }, mishapCount: [1, 7] },
    change(plan, random) {
      beginWithCreate(plan, random)
      plan.faults.middle = { fails: random.pick([0, 0.3]) }
      plan.faults.limitEgress = { 'answer-lost': random.pick([0, 0.2]) }
      // A process that cannot find out about a sandbox at its start opens no route to it until a later round.
      plan.faults.recover = { fails: random.pick([0, 0.5]) }
      plan.holdsReads = random.pick([0, 1])
    },
  },
  volumes: {
    verbs: {
      ...{ 'create a volume': 8, 'delete a volume': 6, 'create with a volume': 8 },
      ...{ kill: 4, pause: 3, connect: 3, list: 1 },
    },
    ...{ requests: [8, 24], clients: [2, 5] },
    ...{ mishaps: { round: 6, crash: 2, 'short outage': 1, reboot: 1 }, mishapCount: [1, 6] },
    change(plan, random) {
      plan.hasVolumes = true
      plan.holdsReads = random.pick([0, 1])
      plan.faults.store = { fails: random.pick([0, 0.05]), 'answer-lost': random.pick([0, 0.1]) }
      plan.faults.volumes = { fails: random.pick([0, 0.1]) }
    },
  },
  builds: {
    verbs: { build: 8, create: 5, 'create from a snapshot': 6, 'delete a snapshot': 4, kill: 3, prune: 2 },
    ...{ requests: [4, 14], clients: [2, 4] },
    ...{ mishaps: { round: 3, crash: 2, death: 2, 'short outage': 1 }, mishapCount: [0, 4] },
    change(plan, random) {
      plan.hasBuilds = true
      plan.faults.driver = { fails: random.pick([0, 0.1]), hangs: random.pick([0, 0.03]) }
    },
  },
  'many due': {
    ...{ verbs: {}, requests: [0, 0], clients: [3, 3], mishaps: {}, mishapCount: [0, 0] },
    change(plan, random) {
      setTeams(plan, 1)
      setGenerousLimits(plan)
      Object.assign(plan, { keepsTime: true, haste: 0, warmSandboxes: 0, hasService: false, nodes: 1 })
      Object.assign(plan, { holdsAnswers: 0, slowSnapshotsMs: 20_000, snapshotMemory: true, clients: 12 })
      plan.faults = {}
      const request = (autoPause: boolean, timeoutMs: number) => {
        const made = planRequest(random, 'create', random.below(12))
        return { request: { ...made, autoPause, timeoutMs } }
      }
      const pausing = Array.from({ length: 55 }, () => request(true, 100_000))
      const dying = Array.from({ length: 3 }, () => request(false, 101_000))
      const after = { ...planRequest(random, 'list', 0), timeoutMs: 0 }
      plan.actions = [...pausing, ...dying, { request: after }].map((action, number) => ({
        ...action,
        number,
      }))
    },
  },
  'full machine': {
    verbs: { create: 10, kill: 3, pause: 3, connect: 3, fork: 1 },
    ...{ requests: [6, 16], clients: [2, 4], timeoutsMs: lasting },
    ...{ mishaps: { 'full disk': 1 }, mishapCount: [1, 3] },
    change(plan) {
      plan.warmSandboxes = 0
      plan.faults = { machine: { fails: 0.4 } }
      setGenerousLimits(plan)
    },
  },
  drains: {
    verbs: { create: 8, 'set-timeout': 5, refresh: 4, connect: 5, pause: 2, write: 6, kill: 1 },
    ...{ requests: [8, 24], clients: [2, 4], timeoutsMs: [300_000, 3_600_000] },
    ...{
      mishaps: { drain: 8, partition: 4, 'short outage': 3, crash: 3, absence: 2, gone: 1, 'peers apart': 1 },
      mishapCount: [2, 6],
    },
    change(plan, random) {
      setGenerousLimits(plan)
      plan.holdsReads = random.pick([0, 0, 1])
      plan.faults.store = random.chance(0.5) ? { ...noFaults } : { fails: 0.02, 'answer-lost': 0.02 }
      plan.faults.driver = {}
      plan.snapshotMemory = true
    },
  },
  strangers: {
    verbs: { create: 6, pause: 10, connect: 2, 'ask as a stranger': 14, write: 1, list: 1 },
    ...{ requests: [10, 26], clients: [3, 5], timeoutsMs: lasting },
    ...{ mishaps: { absence: 4, lapse: 2, standstill: 2, partition: 1 }, mishapCount: [1, 4] },
    change(plan) {
      setTeams(plan, 2)
    },
  },
  layers: {
    verbs: { build: 12, 'delete a snapshot': 8, prune: 10, 'create from a snapshot': 3, kill: 1 },
    ...{ requests: [10, 30], clients: [2, 5] },
    ...{ mishaps: { round: 4, crash: 1, 'no object store': 1 }, mishapCount: [0, 3] },
    change(plan, random) {
      plan.hasBuilds = true
      plan.holdsReads = random.pick([0.3, 1])
      for (const part of ['driver', 'agent']) plan.faults[part] = {}
    },
  },
  quarantine: {
    verbs: { create: 6, pause: 10, write: 2, connect: 2, 'recover a snapshot': 10, 'discard a snapshot': 8 },
    ...{ requests: [14, 34], clients: [3, 6], timeoutsMs: lasting },
    ...{ mishaps: { forgotten: 6, round: 3 }, mishapCount: [2, 4] },
    change(plan, random) {
      plan.holdsReads = random.pick([0, 0.3])
      plan.faults.objects = { fails: 1 }
    },
  },
  'failed resumes': {
    verbs: { create: 4, pause: 10, connect: 14, write: 16, resume: 3 },
    ...{ requests: [14, 34], clients: [2, 4], timeoutsMs: lasting },
    ...{ mishaps: { lapse: 5, absence: 3, 'peers apart': 1, standstill: 1 }, mishapCount: [2, 5] },
    change(plan) {
      plan.writesEarly = true
      plan.snapshotMemory = true
      plan.faults.agent = { fails: 0.25, 'answer-lost': 0.1 }
      plan.faults.store = {}
    },
  },
  'volumes of a cluster': {
    verbs: {
      ...{ 'create a volume': 5, 'create with a volume': 8, 'delete a volume': 2 },
      ...{ pause: 8, connect: 8, resume: 2, write: 2, kill: 1 },
    },
    ...{ requests: [10, 28], clients: [2, 4], timeoutsMs: lasting },
    ...{ mishaps: { lapse: 4, absence: 3, drain: 2, round: 2 }, mishapCount: [1, 4] },
    change(plan) {
      plan.hasVolumes = true
    },
  },
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
