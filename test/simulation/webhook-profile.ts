import { type Plan, planRequest } from './plan.ts'
import { setGenerousLimits, setTeams } from './plan-teams.ts'
import type { Random } from './random.ts'

export const webhookVerbs = {
  'create a webhook': 2,
  'delete a webhook': 2,
  create: 3,
  pause: 4,
  connect: 6,
  'set-timeout': 14,
  kill: 2,
}

/** Receivers that fail, lists that are old at their turn, and time for what is tried again. */
export function addWebhooks(plan: Plan, random: Random): void {
  setTeams(plan, random.between(1, 2))
  setGenerousLimits(plan)
  plan.warmSandboxes = 0
  plan.hasWebhooks = true
  // What each team has from the beginning on.
  const first = plan.teams.flatMap((_, client) => [
    { request: planRequest(random, 'create a webhook', client), number: -1 - 2 * client },
    { request: { ...planRequest(random, 'create', client), timeoutMs: 3_600_000 }, number: -2 - 2 * client },
  ])
  const some = (probability: number) => (random.chance(0.5) ? probability : 0)
  plan.faults.receiver = { fails: some(0.2), 'answer-lost': some(0.2), hangs: some(0.1) }
  plan.receiverAnswers = { error: some(0.2), never: some(0.05) }
  plan.faults.driver = {}
  plan.faults.agent = {}
  plan.holdsReads = random.pick([0, 0.5, 1])
  plan.delayedMethods = ['listDue']
  plan.keepsTime = true
  plan.haste = random.pick([0.02, 0.1])
  // Looks at what is due that take longer than the lease.
  const isSlow = random.chance(0.2)
  if (isSlow) plan.faults.listDue = { ...plan.faults.store, hangs: 0.4 }
  const withinMs = isSlow ? 200_000 : random.pick([10_000, 30_000])
  for (const action of plan.actions) action.atMs = 1000 + random.below(withinMs)
  plan.actions.sort((one, other) => one.atMs! - other.atMs!)
  plan.actions.unshift(...first)
}
