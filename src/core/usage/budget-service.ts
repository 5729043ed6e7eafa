/** Reads, changes and watches the budgets of teams. */
import { AppError } from '../../lib/app-error.ts'
import type { Clock } from '../../lib/clock.ts'
import type { Log } from '../../lib/log.ts'
import {
  type Budget,
  type BudgetLimits,
  type BudgetReport,
  type BudgetState,
  type BudgetUse,
  boundsOf,
  reportBudget,
  stateOf,
  usedOf,
} from './budget.ts'
import { type Amounts, addAmounts, dayOf, noAmounts, startOfMonth } from './usage.ts'
import type { UsageStore } from './usage-store.ts'

type Watched = { month: number; bounds: BudgetUse[]; state: BudgetState }

/**
 * Knows which teams have used up their budgets. It looks at an interval, so a create does not wait for it; a team may exceed its
 * budget by what it starts until the next look.
 */
export class BudgetService {
  readonly #parts: { usage: UsageStore; clock: Clock; log: Log }
  #teams = new Map<string, Watched>()

  constructor(parts: { usage: UsageStore; clock: Clock; log: Log }) {
    this.#parts = parts
  }

  async look(): Promise<void> {
    const { usage, clock, log } = this.#parts
    const month = startOfMonth(clock.now())
    const teams = new Map<string, Watched>()
    for (const budget of await usage.listBudgets()) {
      const bounds = boundsOf(budget, usedOf(await this.#usedThisMonth(budget.teamID)))
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

  /** What is left of this month's budget. Null: the team has none. */
  async report(teamID: string): Promise<BudgetReport | null> {
    const budget = await this.#parts.usage.findBudget(teamID)
    return budget === undefined ? null : this.#report(budget)
  }

  async change(teamID: string, changes: Partial<BudgetLimits>): Promise<BudgetReport> {
    const budget = await this.#parts.usage.changeBudget(teamID, changes)
    await this.look()
    return this.#report(budget)
  }

  async #report({ teamID, ...limits }: Budget): Promise<BudgetReport> {
    return reportBudget(limits, await this.#usedThisMonth(teamID), this.#parts.clock.now())
  }

  async #usedThisMonth(teamID: string): Promise<Amounts> {
    const now = this.#parts.clock.now()
    const month = { firstDay: dayOf(startOfMonth(now)), lastDay: dayOf(now) }
    const days = await this.#parts.usage.read({ teamID, ...month, now })
    return days.reduce<Amounts>(addAmounts, noAmounts)
  }
}
