/** Joins what counts the use of teams, and their budgets. */
import { BudgetService } from '../../core/usage/budget-service.ts'
import { UsageCounter } from '../../core/usage/usage-counter.ts'
import type { DomainPorts } from './domain-ports.ts'

/** `storedBytes`: what each team has on the disk of this node now. */
export function joinUsage(
  { stores: { usage }, clock, log }: DomainPorts,
  storedBytes: () => Promise<readonly { teamID: string; usedBytes: number }[]>,
) {
  return {
    budgets: new BudgetService({ usage, clock, log }),
    usageCounter: new UsageCounter({ usage, clock, storedBytes }),
  }
}
