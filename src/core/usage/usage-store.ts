import type { Budget, BudgetLimits } from './budget.ts'
import type { DayUsage } from './usage.ts'

/** Bounds are days, both inclusive. Without a team: all teams. */
export type UsageFilter = { teamID?: string; firstDay: string; lastDay: string; now: number }

export interface UsageStore {
  /**
   * Adds finished runs to their days, each once, whatever happens meanwhile; at most `max` of them. Returns how many it
   * found.
   */
  countFinishedRuns(max: number): Promise<number>
  add(usage: readonly DayUsage[]): Promise<void>
  /** Of one moment: what was counted, finished runs that were not, and runs that go on at `now`. */
  read(filter: UsageFilter): Promise<DayUsage[]>
  /** Removes days before this one. */
  prune(firstDay: string): Promise<void>
  /** Undefined: the team has none. */
  findBudget(teamID: string): Promise<Budget | undefined>
  listBudgets(): Promise<Budget[]>
  /** Changes these bounds and leaves the others, also beside another change. Rejects with `not_found` if there is no such team. */
  changeBudget(teamID: string, changes: Partial<BudgetLimits>): Promise<Budget>
}
