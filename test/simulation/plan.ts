/** What a history consists of: who asks for what, what goes wrong, and how the calls are mixed. */
import type { TeamLimits } from '../../src/core/team/team.ts'
import type { CallFault } from './parked-calls.ts'
import { Random } from './random.ts'

export type Verb =
  | 'create'
  | 'create with a key'
  | 'create from a snapshot'
  | 'kill'
  | 'pause'
  | 'resume'
  | 'connect'
  | 'wake'
  | 'set-timeout'
  | 'refresh'
  | 'fork'
  | 'snapshot'
  | 'set-network'
  | 'list'
  | 'delete a snapshot'
  | 'prune'
  | 'write'
  // Those that only histories of a profile have.
  | 'create with a volume'
  | 'create a volume'
  | 'delete a volume'
  | 'build'
  | 'recover a snapshot'
  | 'discard a snapshot'
  | 'ask as a stranger'
  | 'create a webhook'
  | 'delete a webhook'

/** One request of a client. The numbers between 0 and 1 choose among what is there when it is made. */
export type Request = {
  verb: Verb
  client: number
  pick: number
  timeoutMs: number
  memory: boolean
  autoPause: boolean
  autoResume: boolean
  closed: boolean
  count: number
  key: string
  /** The sandbox that an unplanned request is for, and the number of the node where it comes in. */
  rush?: { sandboxID: string; door: number }
}

const mishaps = ['crash', 'reboot', 'death', 'jump', 'unreadable', 'outage'] as const
/** What else happens where nodes share an object store. */
const clusterMishaps = [
  'partition',
  'standstill',
  'lapse',
  'no object store',
  'absence',
  'forgotten',
  'drain',
  'peers apart',
  'old copy',
] as const
/** What happens in histories of a profile alone. */
const profileMishaps = [
  'short outage',
  'round',
  'full disk',
  'little memory',
  'gone',
  'lost copies',
  'lost machine',
  'rush',
] as const

/** What happens to a machine. */
export type Mishap = {
  /**
   * `unreadable`: for a while nothing can be found out about a sandbox or a snapshot. `outage`: for longer than
   * anybody tries again, no node reaches the store. `partition`: one node does not, and of what it asks some takes effect.
   * `standstill`: nothing of its process goes on, for longer than its lease. `lapse`: no sign of life takes
   * effect though all nodes live, so that each takes the others for away. `no object store`: no node reaches that. `absence`: its process is
   * down for up to 40 s. `forgotten`: its lease is over, the operator forgets it, and it comes back. `drain`: the operator
   * empties it, and takes that back later. `peers apart`: it reaches the store, and no other node. `old copy`: a
   * machine that was set back to an earlier moment runs what another node has by now. `short outage`: for a little longer
   * than anybody tries again, calls of the store fail, and of those that take effect the answers are lost. `round`: the
   * reconcilers begin a round. `full disk`: for a while the disk of the machine is full. `little memory`: for a while
   * memory is scarce, and a few sandboxes take more and more of it. `gone`: a node that
   * has just taken a sandbox over goes down for good. `lost copies`: snapshots that the object store has go from all disks.
   * `lost machine`: it goes down for good with all that runs on it, and the operator forgets it. `rush`: clients ask every node for
   * the same paused sandboxes.
   */
  kind: (typeof mishaps)[number] | (typeof clusterMishaps)[number] | (typeof profileMishaps)[number]
  node: number
  pick: number
  /** Number of requests after which the mishap happens. */
  after: number
  /** How far the wall clock jumps. */
  jumpMs: number
}

export type Action = ({ request: Request } | { mishap: Mishap }) & {
  number: number
  /** Not before so much time has elapsed. */
  atMs?: number
}

/** Kinds of histories in which some faults are met more often (profiles.ts). */
export const machineProfiles = [
  'burst in an outage',
  'overlapping rounds',
  'deaths in rounds',
  'egress policies',
  'volumes',
  'builds',
  'many due',
  'full machine',
  'webhooks',
  'used-up memory',
  'addresses',
  'late commits',
] as const
export const clusterProfiles = [
  'drains',
  'strangers',
  'layers',
  'quarantine',
  'failed resumes',
  'volumes of a cluster',
  'webhooks of a cluster',
  'early resumes',
  'rejected resumes',
  'late store',
  'lost creates',
  'left and came back',
  'other prefix',
] as const
export const drawnProfiles = [...machineProfiles, ...clusterProfiles] as const
export type ProfileName = (typeof drawnProfiles)[number]

/** What a receiver does with an event that it gets, where it does not take it. */
export type ReceiverAnswer = 'error' | 'never'

export type Plan = {
  seed: number
  /** Undefined: everything may happen, and nothing more often than else. */
  profile: ProfileName | undefined
  /** The seed of the order in which things go on; a shrink tries others. */
  schedule: number
  teams: { slug: string; limits: TeamLimits }[]
  nodes: number
  /** The nodes share an object store, know each other, and pass requests on. */
  isCluster: boolean
  clients: number
  /** False: the driver keeps files only, and a pause with memory freezes. */
  snapshotMemory: boolean
  warmSandboxes: number
  /** The template has a start command. */
  hasService: boolean
  actions: Action[]
  /** How likely each fault of a call is, by its method or else by what is called. */
  faults: Partial<Record<string, Partial<Record<CallFault, number>>>>
  /** Probability that the oldest call continues first. */
  inOrder: number
  holdsAnswers: number
  /** How readily time moves on. */
  haste: number
  /** How likely the answer of a call that lists or looks is old when it is heard: others go on before. */
  holdsReads: number
  /** Only calls of these methods are held so; undefined: all that list or look. */
  delayedMethods: readonly string[] | undefined
  /** How long each snapshot takes. */
  slowSnapshotsMs: number
  /** How long each end of a sandbox takes. */
  slowStopsMs: number
  /** Time moves only while nothing else can go on, and then to the next timer. */
  keepsTime: boolean
  hasVolumes: boolean
  hasBuilds: boolean
  /** Sandboxes may reach some names alone, by way of the gate. */
  hasGate: boolean
  hasWebhooks: boolean
  /** How likely a receiver of webhooks answers otherwise than it should. */
  receiverAnswers: Partial<Record<ReceiverAnswer, number>>
  /** Programs in a sandbox write as soon as they go on, before its resume is done. */
  writesEarly: boolean
  /** How long the memory of a sandbox that runs takes to arrive from the object store; undefined: it is there first. */
  arrivalMs: number | undefined
  /** In elapsed milliseconds: a process that starts before has no object store. */
  storeFromMs: number
  /** The number of the node that looks for objects under another prefix than the others. */
  otherPrefixNode: number | undefined
  /** Clients ask any node for a sandbox of a template that the object store has. */
  isStoredAnywhere: boolean
  /** Some builds use a layer that no object store takes. */
  hasUnstorableLayer: boolean
  /** So many sandboxes run already, and are due soon: most are to be paused then, the last ones to end. */
  dueSoon: { pauses: number; ends: number } | undefined
}

const verbs: Partial<Record<Verb, number>> = {
  create: 10,
  'create with a key': 4,
  'create from a snapshot': 3,
  kill: 5,
  pause: 8,
  resume: 4,
  connect: 8,
  wake: 2,
  'set-timeout': 8,
  refresh: 3,
  fork: 3,
  snapshot: 3,
  'set-network': 3,
  list: 2,
  'delete a snapshot': 2,
  prune: 1,
  write: 8,
}

/** Only what is paused moves, and only a resume shows whether it moved well. */
const migrationVerbs = { pause: 30, connect: 30, resume: 10, wake: 5, write: 20 }
/** Most live on through a move. */
const clusterTimeouts = [20_000, 300_000, 300_000, 300_000]

export type PlanOptions = {
  nodes?: number
  /** False: nodes that share the database and nothing else. Where the number of nodes is given, they are a cluster. */
  isCluster?: boolean
  /** Only these happen, and always some of them. */
  mishaps?: readonly Mishap['kind'][]
  /** How likely each call of the store fails, whatever else goes wrong. */
  storeFails?: number
  /** Null: none. Undefined: the seed chooses. */
  profile?: ProfileName | null
}

/** Each history has only some of the verbs and faults, so that rare combinations are met as often as common ones. */
export function planUsual(seed: number, options: PlanOptions = {}): Plan {
  const random = new Random(seed)
  const chosen = Object.entries(verbs).filter(([verb]) => verb.startsWith('create') || random.chance(0.7))
  const weights: Partial<Record<Verb, number>> = Object.fromEntries(chosen)
  const clients = random.between(1, 5)
  const nodes = options.nodes ?? (random.chance(0.15) ? 2 : 1)
  const isCluster = options.isCluster ?? (options.nodes ?? 1) > 1
  if (isCluster) Object.assign(weights, migrationVerbs)
  const possible = isCluster ? [...mishaps, ...clusterMishaps] : mishaps
  const requests = Array.from({ length: isCluster ? random.between(10, 40) : random.between(4, 26) }, () => {
    const request = planRequest(random, random.weighted(weights), random.below(clients))
    if (isCluster && request.timeoutMs > 0) request.timeoutMs = random.pick(clusterTimeouts)
    return { request }
  })
  const kinds = options.mishaps ?? possible.filter(() => random.chance(0.4))
  const happenings = Array.from(
    { length: kinds.length > 0 ? random.between(options.mishaps ? 3 : 0, 5) : 0 },
    () => ({
      mishap: {
        kind: random.pick(kinds),
        node: random.below(nodes),
        pick: random.next(),
        after: random.between(1, requests.length),
        jumpMs: random.pick([-3_600_000, -30_000, -1000, 1000, 30_000]),
      },
    }),
  )
  const actions = [...requests, ...happenings].map((action, number) => ({ ...action, number }))
  const plan: Plan = {
    seed,
    profile: undefined,
    schedule: seed,
    nodes,
    isCluster,
    clients,
    actions,
    teams: Array.from({ length: random.between(1, 3) }, (_, at) => ({
      slug: `team${at}`,
      limits: planLimits(random),
    })),
    snapshotMemory: random.chance(0.75),
    warmSandboxes: random.chance(0.4) ? random.between(1, 2) : 0,
    hasService: random.chance(0.3),
    faults: planFaults(random, options),
    inOrder: random.pick([0, 0.3, 0.9]),
    holdsAnswers: random.pick([0, 0.3, 1]),
    haste: random.pick([0.02, 0.1, 0.4]),
    holdsReads: 0,
    slowSnapshotsMs: 0,
    slowStopsMs: 0,
    keepsTime: false,
    hasVolumes: false,
    hasBuilds: false,
    hasGate: false,
    writesEarly: false,
    hasWebhooks: false,
    receiverAnswers: {},
    delayedMethods: undefined,
    arrivalMs: undefined,
    storeFromMs: 0,
    otherPrefixNode: undefined,
    isStoredAnywhere: false,
    hasUnstorableLayer: false,
    dueSoon: undefined,
  }
  if (isCluster) plan.faults.objects = planObjectFaults(random)
  return plan
}

export function planRequest(random: Random, verb: Verb, client: number): Request {
  return {
    verb,
    client,
    pick: random.next(),
    timeoutMs:
      verb === 'set-timeout' && random.chance(0.1) ? 0 : random.pick([1000, 5000, 20_000, 60_000, 300_000]),
    memory: random.chance(0.8),
    autoPause: random.chance(0.4),
    autoResume: random.chance(0.5),
    closed: random.chance(0.5),
    count: random.between(1, 2),
    key: `key${random.below(2)}`,
  }
}

const planLimits = (random: Random): TeamLimits => ({
  maxSandboxes: random.between(2, 5),
  maxCPU: random.pick([4, 20]),
  maxMemoryMB: random.pick([1024, 8192]),
  maxLifetimeHours: 24,
  maxGPUs: 8,
})

/** Drawn last, so that the seeds of a single machine stand for the same histories with and without it. */
const planObjectFaults = (random: Random) => {
  const some = (probability: number) => (random.chance(0.4) ? probability : 0)
  return { fails: some(0.1), 'answer-lost': some(0.1), hangs: some(0.03) }
}

function planFaults(random: Random, { storeFails }: PlanOptions): Plan['faults'] {
  const some = (probability: number) => (random.chance(0.4) ? probability : 0)
  return {
    store: { fails: storeFails ?? some(0.03), 'answer-lost': some(0.03), hangs: some(0.01) },
    driver: { fails: some(0.05), 'answer-lost': some(0.1), hangs: some(0.03) },
    agent: { fails: some(0.05), 'answer-lost': some(0.05), hangs: some(0.05) },
  }
}
