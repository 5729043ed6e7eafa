/** Goes through histories to the last one, and tells each way in which rules were broken: how often, and how soon. */
import type { SimulatedDatabase } from './database.ts'
import { runHistory } from './history.ts'
import { planHistory } from './plan-history.ts'
import type { SearchOptions } from './search.ts'

type Kind = { count: number; seed: number; after: number; message: string; profile: string }

export async function survey(
  database: SimulatedDatabase,
  seeds: Iterable<number>,
  { plan: options, history }: SearchOptions = {},
): Promise<string> {
  const kinds = new Map<string, Kind>()
  const began = performance.now()
  let histories = 0
  for (const seed of seeds) {
    histories++
    const plan = planHistory(seed, options)
    const { violations } = await runHistory(database, plan, history)
    const [violation] = violations
    if (!violation) continue
    const known = kinds.get(violation.kind)
    const { message } = violation
    const profile = plan.profile ?? 'usual'
    if (known) known.count++
    else kinds.set(violation.kind, { count: 1, seed, after: histories, message, profile })
  }
  const msEach = ((performance.now() - began) / Math.max(1, histories)).toFixed(1)
  const lines = [...kinds.values()]
    .sort((one, other) => other.count - one.count)
    .map(
      ({ count, seed, after, message, profile }) =>
        `${String(count).padStart(5)} times, first in history ${after} (seed ${seed}, ${profile}): ${message.slice(0, 200)}`,
    )
  return [`${histories} histories, ${msEach} ms each`, ...lines].join('\n')
}
