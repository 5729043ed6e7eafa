/** Makes a plan that breaks a rule smaller, as long as it still breaks the same rule in the same way, so that a person can read it. */
import type { SimulatedDatabase } from './database.ts'
import { runHistory } from './history.ts'
import type { Plan } from './plan.ts'
import type { HistoryOptions } from './simulation.ts'
import type { Violation } from './violation.ts'

/** Number of orders to try for each smaller plan, because dropping a request changes the order of everything after it. */
const ordersToTry = 6

export async function shrink(
  database: SimulatedDatabase,
  plan: Plan,
  { kind }: Violation,
  options: HistoryOptions = {},
): Promise<Plan> {
  let smallest = plan
  for (let before: Plan | undefined; before !== smallest; ) {
    before = smallest
    for (const make of smallerPlans(smallest)) {
      smallest = (await stillBreaks(database, make(smallest), kind, options)) ?? smallest
    }
  }
  return smallest
}

async function stillBreaks(database: SimulatedDatabase, plan: Plan, kind: string, options: HistoryOptions) {
  for (let order = 0; order < ordersToTry; order++) {
    const tried = { ...plan, schedule: plan.schedule + order * 7919 }
    const { violations } = await runHistory(database, tried, options)
    if (violations[0]?.kind === kind) return tried
  }
  return undefined
}

function smallerPlans({ actions, faults, ...rest }: Plan): ((plan: Plan) => Plan)[] {
  const sizes = [Math.ceil(actions.length / 2), Math.ceil(actions.length / 4), 1]
  const withoutActions = [...new Set(sizes)].flatMap((size) =>
    chunks(
      actions.map(({ number }) => number),
      size,
    ).map((dropped) => (plan: Plan) => ({
      ...plan,
      actions: plan.actions.filter(({ number }) => !dropped.includes(number)),
    })),
  )
  const withoutFault = Object.entries(faults).flatMap(([part, kinds]) =>
    Object.entries(kinds ?? {}).flatMap(([kind, likely]) =>
      likely > 0
        ? [
            (plan: Plan) => ({
              ...plan,
              faults: { ...plan.faults, [part]: { ...plan.faults[part], [kind]: 0 } },
            }),
          ]
        : [],
    ),
  )
  const simpler: Partial<Plan>[] = [
    { warmSandboxes: 0 },
    { holdsAnswers: 0 },
    { inOrder: 0.9 },
    { haste: 0.02 },
  ]
  const changes = simpler.filter((change) =>
    Object.entries(change).some(([key, value]) => rest[key as keyof typeof rest] !== value),
  )
  return [
    ...withoutFault,
    ...withoutActions,
    ...changes.map((change) => (plan: Plan) => ({ ...plan, ...change })),
  ]
}

const chunks = <T>(list: T[], size: number): T[][] =>
  Array.from({ length: Math.ceil(list.length / size) }, (_, at) => list.slice(at * size, (at + 1) * size))
