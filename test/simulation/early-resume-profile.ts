/** Sandboxes that come back from the object store, and run while their memory arrives, whatever happens meanwhile. */
import { type Mishap, type Plan, planRequest, type Verb } from './plan.ts'
import { setGenerousLimits, setTeams } from './plan-teams.ts'
import type { Random } from './random.ts'

export const earlyVerbs: Partial<Record<Verb, number>> = {
  write: 6,
  pause: 6,
  connect: 4,
  wake: 1,
  fork: 2,
  snapshot: 2,
  prune: 5,
  kill: 1,
  'set-timeout': 1,
}

export const earlyMishaps = {
  crash: 4,
  death: 6,
  reboot: 2,
  round: 2,
  absence: 3,
  standstill: 1,
  partition: 1,
  drain: 2,
  forgotten: 2,
  'lost machine': 3,
  'no object store': 3,
} as const

const pauseMs = 1000
const leaveMs = 4000
const comeBackMs = 5000
const awayMs = 13_000

/**
 * Again and again everything is paused, its copies on the disks go or its node is away, and clients want it back. The
 * other requests and mishaps of the plan meet this at any time.
 */
export function resumeEarly(plan: Plan, random: Random): void {
  setTeams(plan, 1)
  setGenerousLimits(plan)
  const arrivalMs = random.pick([2000, 10_000, 40_000])
  Object.assign(plan, { snapshotMemory: true, warmSandboxes: 0, keepsTime: true, haste: 0.02, arrivalMs })
  const sandboxes = random.between(1, 3)
  const ask = (verb: Verb, atMs: number) => ({
    atMs,
    request: {
      ...planRequest(random, verb, random.below(plan.clients)),
      ...{ timeoutMs: 3_600_000, memory: random.chance(0.9) },
    },
  })
  const happen = (kind: Mishap['kind'], atMs: number) => ({
    atMs,
    mishap: { kind, node: random.below(plan.nodes), pick: random.next(), after: 0, jumpMs: 0 },
  })
  const some = <T>(count: number, make: () => T) => Array.from({ length: count }, make)
  const added = some(sandboxes, () => ask('create', 0))
  let endMs = 2000
  for (let cycle = random.between(2, 5); cycle > 0; cycle--) {
    const from = endMs
    const why = random.pick(['lost copies', 'lost copies', 'lapse', 'absence', 'standstill'] as const)
    const isAway = why === 'absence' || why === 'standstill'
    const backMs = from + comeBackMs + (isAway ? awayMs : 0)
    added.push(...some(sandboxes, () => ask('write', from)))
    added.push(...some(sandboxes + 1, () => ask('pause', from + pauseMs)))
    plan.actions.push({ ...happen(why, from + leaveMs), number: 0 })
    added.push(...some(sandboxes + 1, () => ask('connect', backMs)))
    // In the middle of the arrival.
    const inMiddle = () => backMs + Math.round(arrivalMs / 10) + random.below(arrivalMs)
    added.push(ask('write', inMiddle()), ask(random.weighted(earlyVerbs), inMiddle()))
    plan.actions.push({ ...happen(random.weighted(earlyMishaps), inMiddle()), number: 0 })
    endMs = backMs + random.pick([1000, arrivalMs, 2 * arrivalMs])
  }
  for (const action of plan.actions) action.atMs ??= 2000 + random.below(endMs)
  for (const action of plan.actions) if ('mishap' in action) action.mishap.after = 0
  plan.actions = [...plan.actions, ...added]
    .sort((one, other) => one.atMs! - other.atMs!)
    .map((action, number) => ({ ...action, number }))
}
