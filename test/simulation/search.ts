/** Goes through histories until one breaks a rule, and says so in a way that a person can act on. */
import { SimulatedDatabase } from './database.ts'
import { runHistory } from './history.ts'
import type { PlanOptions } from './plan.ts'
import { planHistory } from './plan-history.ts'
import { shrink } from './shrink.ts'
import type { HistoryOptions } from './simulation.ts'
import type { Violation } from './violation.ts'

export type SearchOptions = {
  plan?: PlanOptions
  history?: HistoryOptions
  /** Only violations whose message matches count. */
  finds?: RegExp
}

export type Found = { seed: number; violation: Violation; histories: number }

/** The first of the seeds whose history breaks a rule. */
export async function search(
  database: SimulatedDatabase,
  seeds: Iterable<number>,
  { plan, history, finds = /./ }: SearchOptions = {},
): Promise<Found | undefined> {
  let histories = 0
  for (const seed of seeds) {
    histories++
    const { violations } = await runHistory(database, planHistory(seed, plan), history)
    const violation = violations.find(({ message }) => finds.test(message))
    if (violation) return { seed, violation, histories }
  }
  return undefined
}

/** The smallest history that breaks the same rule, as text; its seed replays the whole one. */
export async function explain(
  database: SimulatedDatabase,
  { seed, violation }: Found,
  { plan: planOptions, history }: SearchOptions = {},
): Promise<string> {
  const plan = await shrink(database, planHistory(seed, planOptions), violation, history)
  const { trace } = await runHistory(database, plan, { ...history, trace: true })
  return [
    `Seed ${seed} breaks a rule: ${violation.message}`,
    `Replay it with: npm run simulate -- --seed ${seed}${optionsOf(planOptions)}`,
    `It is a history of the profile '${plan.profile ?? 'usual'}'.`,
    `The same rule is broken by ${plan.actions.length} of its actions:`,
    ...trace,
  ].join('\n')
}

/** As the command line takes them. */
export const optionsOf = ({ nodes, profile }: PlanOptions = {}): string =>
  `${nodes ? ` --nodes ${nodes}` : ''}${profile === undefined ? '' : ` --profile '${profile ?? 'usual'}'`}`

export const openDatabase = () => SimulatedDatabase.open()

export function* seedsFrom(first: number, count = Number.POSITIVE_INFINITY): Iterable<number> {
  for (let at = 0; at < count; at++) yield (first + at) % 2 ** 31
}
