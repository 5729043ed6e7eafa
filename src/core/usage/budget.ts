/** What a team may use in a month. New sandboxes are rejected beyond it; running ones are never ended for it. */
import { AppError } from '../../lib/app-error.ts'
import type { Clock } from '../../lib/clock.ts'
import type { Log } from '../../lib/log.ts'
import { type Amounts, addAmounts, dayOf, noAmounts, startOfMonth } from './usage.ts'
import type { UsageStore } from './usage-store.ts'

/** Null: no bound. */
export type BudgetLimits = { cpuHours: number | null; gpuHours: number | null; sentGB: number | null }
export type Budget = BudgetLimits & { teamID: string }

export const noBudget: BudgetLimits = { cpuHours: null, gpuHours: null, sentGB: null }

type BudgetUse = { name: string; used: number; limit: number }
export type BudgetState = 'within' | 'nearly used' | 'used up'
export type BudgetReport = {
  month: string
  limits: BudgetLimits
  used: Record<keyof BudgetLimits, number>
  state: BudgetState
}

/** Share of a budget from which it is reported as nearly used. */
const warnShare = 0.8
const hourMs = 3_600_000
const gigabyte = 2 ** 30

const unitNames: Record<keyof BudgetLimits, string> = {
  cpuHours: 'hours of a CPU',
  gpuHours: 'hours of a GPU',
  sentGB: 'GiB sent',
}

const usedOf = ({ cpuMs, gpuMs, sentBytes }: Amounts): Record<keyof BudgetLimits, number> => ({
  cpuHours: cpuMs / hourMs,
  gpuHours: gpuMs / hourMs,
  sentGB: sentBytes / gigabyte,
})

function boundsOf(limits: BudgetLimits, used: Record<keyof BudgetLimits, number>): BudgetUse[] {
  const names = Object.keys(noBudget) as (keyof BudgetLimits)[]
  return names.flatMap((name) => {
    const limit = limits[name]
    return limit === null ? [] : [{ name: unitNames[name], used: used[name], limit }]
  })
}

function stateOf(bounds: readonly BudgetUse[]): BudgetState {
  if (bounds.some(({ used, limit }) => used >= limit)) return 'used up'
  return bounds.some(({ used, limit }) => used >= limit * warnShare) ? 'nearly used' : 'within'
}

export function reportBudget(limits: BudgetLimits, amounts: Amounts, now: number): BudgetReport {
  const used = usedOf(amounts)
  return { month: dayOf(now).slice(0, 7), limits, used, state: stateOf(boundsOf(limits, used)) }
}

type Watched = { month: number; bounds: BudgetUse[]; state: BudgetState }

/**
 * Knows which teams have used up their budgets. It looks at an interval, so a create does not wait for it; a team may exceed its
 * budget by what it starts until the next look.
 */
export class BudgetWatch {
  readonly #parts: { usage: UsageStore; clock: Clock; log: Log }
  #teams = new Map<string, Watched>()

  constructor(parts: { usage: UsageStore; clock: Clock; log: Log }) {
    this.#parts = parts
  }

  async look(): Promise<void> {
    const { usage, clock, log } = this.#parts
    const now = clock.now()
    const month = startOfMonth(now)
    const teams = new Map<string, Watched>()
    for (const budget of await usage.listBudgets()) {
      const days = await usage.read({
        teamID: budget.teamID,
        firstDay: dayOf(month),
        lastDay: dayOf(now),
        now,
      })
      const bounds = boundsOf(budget, usedOf(days.reduce<Amounts>(addAmounts, noAmounts)))
      const state = stateOf(bounds)
      const before = this.#teams.get(budget.teamID)
      const isNews = before === undefined || before.state !== state || before.month !== month
      if (state !== 'within' && isNews)
        log.warn({ teamID: budget.teamID, budget: bounds }, `the budget of a team for this month is ${state}`)
      teams.set(budget.teamID, { month, bounds, state })
    }
    this.#teams = teams
  }

  /** Rejects a new sandbox of a team that has used up its budget of this month. */
  require(teamID: string): void {
    const watched = this.#teams.get(teamID)
    if (watched?.state !== 'used up' || watched.month !== startOfMonth(this.#parts.clock.now())) return
    const [bound] = watched.bounds.filter(({ used, limit }) => used >= limit)
    const { name, used, limit } = bound!
    throw new AppError(
      'limit_reached',
      `The team has used up its budget of this month: ${used.toFixed(1)} of ${limit} ${name}. Its sandboxes go on running, and it gets ` +
        'no new ones until next month, or until the operator raises the budget (`warren team budget`)',
    )
  }
}
