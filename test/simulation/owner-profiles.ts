/** Profiles in which bytes, rows and answers part ways: each meets one way in which a name is taken for the thing. */
import { type Action, type Mishap, type Plan, planRequest, type Request, type Verb } from './plan.ts'
import { setGenerousLimits, setTeams } from './plan-teams.ts'
import type { Profile } from './profiles.ts'
import type { Random } from './random.ts'

/** Chooses the first that clients know, and the newest. */
const first = 0.6
const newest = 0
const lasting = 3_600_000
const none = { verbs: {}, requests: [0, 0], clients: [1, 1], mishaps: {}, mishapCount: [0, 0] } as const

/** Makes the actions of a history at set times. */
class Timeline {
  readonly #plan: Plan
  readonly #random: Random
  readonly actions: Action[] = []

  constructor(plan: Plan, random: Random) {
    this.#plan = plan
    this.#random = random
    Object.assign(plan, { keepsTime: true, haste: 0.02, warmSandboxes: 0, snapshotMemory: true })
  }

  /** At about this time. */
  ask(verb: Verb, atMs: number, wish: Partial<Request> = {}): this {
    const client = this.actions.length
    const request = { ...planRequest(this.#random, verb, client), timeoutMs: lasting, memory: true, ...wish }
    this.actions.push({ request: { ...request, autoPause: false }, ...this.#at(atMs) })
    return this
  }

  happen(kind: Mishap['kind'], atMs: number, { node, pick }: Partial<Mishap> = {}): this {
    const [random, plan] = [this.#random, this.#plan]
    const where = { node: node ?? random.below(plan.nodes), pick: pick ?? random.next() }
    this.actions.push({ mishap: { kind, after: 0, jumpMs: 0, ...where }, ...this.#at(atMs) })
    return this
  }

  onEachNode(kind: Mishap['kind'], atMs: number): this {
    for (let node = 0; node < this.#plan.nodes; node++) this.happen(kind, atMs, { node })
    return this
  }

  /** In place of the actions of the plan. */
  use(): void {
    const sorted = this.actions.sort((one, other) => one.atMs! - other.atMs!)
    this.#plan.clients = sorted.length
    this.#plan.actions = sorted.map((action, number) => ({ ...action, number }))
  }

  #at(atMs: number) {
    return { number: 0, atMs: atMs + this.#random.below(300) }
  }
}

const limitTo = (plan: Plan, maxSandboxes: number): void => {
  setGenerousLimits(plan)
  for (const team of plan.teams) team.limits = { ...team.limits, maxSandboxes }
}

/** Only the object store has a sandbox; resumes with and without memory are rejected by the limit of its team. */
function rejectResumes(plan: Plan, random: Random): void {
  setTeams(plan, 1)
  limitTo(plan, 1)
  plan.faults = random.chance(0.5) ? {} : { store: { fails: 0.02, 'answer-lost': 0.02 } }
  const line = new Timeline(plan, random).ask('create', 0).ask('write', 1000).ask('pause', 2000)
  line.ask('create', 3500).happen(random.pick(['lost copies', 'lapse'] as const), 5000)
  const from = 17_000
  for (let again = random.between(1, 3); again > 0; again--)
    line.ask('connect', from + random.below(4000), { pick: first, memory: random.chance(0.3) })
  line.onEachNode('round', from + 5000)
  line.ask('kill', from + 9000, { pick: newest }).ask('connect', from + 11_000, { pick: first })
  line.use()
}

/** Every node takes the others for away, and each door is asked for the same sandbox, which few may start. */
function comeBack(plan: Plan, random: Random): void {
  setTeams(plan, 1)
  limitTo(plan, 1)
  plan.faults = { initialize: { fails: random.pick([0, 0.3]) } }
  plan.holdsReads = random.pick([0.3, 0.6])
  plan.delayedMethods = ['sumActive', 'findSnapshot', 'find', 'findTeam']
  const line = new Timeline(plan, random).ask('create', 0).ask('write', 500).ask('pause', 1000)
  line.ask('create', 2500).happen('lapse', 4000, { pick: 1 })
  const from = 15_500
  for (let rushes = random.between(3, 6); rushes > 0; rushes--) line.happen('rush', from + random.below(8000))
  for (let rounds = random.between(2, 4); rounds > 0; rounds--)
    line.onEachNode('round', from + random.below(8000))
  line.ask('kill', from + 1000 + random.below(5000), { pick: newest })
  line.use()
}

/** Templates are built before the object store is there, and some of them can never be stored. */
function turnStoreOn(plan: Plan, random: Random): void {
  setTeams(plan, 1)
  setGenerousLimits(plan)
  Object.assign(plan, { hasBuilds: true, hasUnstorableLayer: true })
  plan.faults = { objects: { fails: random.pick([0, 0.1]), hangs: random.pick([0, 0.05]) } }
  plan.storeFromMs = random.pick([0, 9000])
  const line = new Timeline(plan, random)
  for (let builds = random.between(1, 3); builds > 0; builds--) line.ask('build', random.below(500))
  for (let creates = random.between(2, 4); creates > 0; creates--)
    line.ask('create from a snapshot', 3000 + random.below(2000))
  line.ask('write', 5500).ask('snapshot', 5700)
  if (plan.storeFromMs > 0) line.onEachNode('crash', plan.storeFromMs)
  const from = plan.storeFromMs + 6000
  for (let pauses = random.between(2, 4); pauses > 0; pauses--)
    line.ask('pause', (random.chance(0.5) ? 7000 : from) + random.below(1000), { pick: random.next() })
  line.happen(random.pick(['absence', 'lapse', 'drain', 'standstill'] as const), from + 4000, { pick: 0.9 })
  for (let asks = random.between(2, 5); asks > 0; asks--)
    line.ask('connect', from + 16_000 + random.below(6000), { pick: random.next() })
  line.onEachNode('round', from + 20_000).use()
}

/** One node looks for everything under another prefix, so that nothing is there for it. */
function lookElsewhere(plan: Plan, random: Random): void {
  setTeams(plan, 1)
  setGenerousLimits(plan)
  Object.assign(plan, { hasBuilds: true, otherPrefixNode: random.below(plan.nodes), isStoredAnywhere: true })
  plan.faults = {}
  const line = new Timeline(plan, random)
  for (let builds = random.between(1, 3); builds > 0; builds--) line.ask('build', random.below(500))
  line.ask('create', 1000).ask('snapshot', 3000, { pick: newest })
  for (let creates = random.between(4, 8); creates > 0; creates--)
    line.ask('create from a snapshot', 70_000 + random.below(60_000), { pick: random.next() })
  line.use()
}

export const ownerProfiles = {
  'rejected resumes': { ...none, change: rejectResumes },
  'left and came back': { ...none, change: comeBack },
  'late store': { ...none, change: turnStoreOn },
  'other prefix': { ...none, change: lookElsewhere },
  'lost creates': {
    verbs: { create: 8, 'create with a key': 4, list: 1, kill: 1, 'create from a snapshot': 1 },
    requests: [6, 16],
    clients: [2, 5],
    timeoutsMs: [lasting],
    mishaps: { 'peers apart': 4, crash: 3, standstill: 2, absence: 2, drain: 1 },
    mishapCount: [0, 3],
    change(plan: Plan, random: Random) {
      setTeams(plan, 1)
      setGenerousLimits(plan)
      plan.faults.peers = { 'answer-lost': random.pick([0.1, 0.4]), fails: random.pick([0, 0.2]) }
      plan.faults.store = random.chance(0.5) ? {} : { fails: 0.02, 'answer-lost': 0.02, hangs: 0.02 }
    },
  },
  addresses: {
    verbs: { create: 10, kill: 8, pause: 4, connect: 4, fork: 1, 'set-timeout': 1 },
    requests: [10, 26],
    clients: [3, 5],
    timeoutsMs: [5000, lasting],
    mishaps: { round: 5, crash: 2, death: 4 },
    mishapCount: [1, 6],
    change(plan: Plan, random: Random) {
      setGenerousLimits(plan)
      plan.hasGate = true
      plan.warmSandboxes = random.pick([0, 0, 1])
      plan.faults.driver = { 'answer-lost': random.pick([0, 0.1]), hangs: random.pick([0, 0.05]) }
    },
  },
  'late commits': {
    verbs: { create: 6, kill: 1, pause: 3, connect: 5, snapshot: 12, fork: 1, 'create from a snapshot': 4 },
    requests: [6, 18],
    clients: [2, 4],
    timeoutsMs: [60_000, lasting],
    mishaps: { round: 3, crash: 1 },
    mishapCount: [0, 3],
    change(plan: Plan, random: Random) {
      setTeams(plan, 1)
      setGenerousLimits(plan)
      const create = { ...planRequest(random, 'create', 0), timeoutMs: lasting }
      plan.actions.unshift({ request: create, number: -1 })
      plan.faults.store = { 'lands-late': random.pick([0.05, 0.15]) }
      plan.faults.insertBuild = { 'lands-late': 0.9 }
      for (const part of ['driver', 'agent']) plan.faults[part] = {}
    },
  },
} satisfies Record<string, Profile>
