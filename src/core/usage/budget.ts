/** What a team may use in a month. New sandboxes are rejected beyond it; running ones are never ended for it. */
import { type Amounts, dayOf } from './usage.ts'

/** Null: no bound. */
export type BudgetLimits = { cpuHours: number | null; gpuHours: number | null; sentGB: number | null }
export type Budget = BudgetLimits & { teamID: string }

export const noBudget: BudgetLimits = { cpuHours: null, gpuHours: null, sentGB: null }

export type BudgetUse = { name: string; used: number; limit: number }
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

export const usedOf = ({ cpuMs, gpuMs, sentBytes }: Amounts): Record<keyof BudgetLimits, number> => ({
  cpuHours: cpuMs / hourMs,
  gpuHours: gpuMs / hourMs,
  sentGB: sentBytes / gigabyte,
})

export function boundsOf(limits: BudgetLimits, used: Record<keyof BudgetLimits, number>): BudgetUse[] {
  const names = Object.keys(noBudget) as (keyof BudgetLimits)[]
  return names.flatMap((name) => {
    const limit = limits[name]
    return limit === null ? [] : [{ name: unitNames[name], used: used[name], limit }]
  })
}

export function stateOf(bounds: readonly BudgetUse[]): BudgetState {
  if (bounds.some(({ used, limit }) => used >= limit)) return 'used up'
  return bounds.some(({ used, limit }) => used >= limit * warnShare) ? 'nearly used' : 'within'
}

export function reportBudget(limits: BudgetLimits, amounts: Amounts, now: number): BudgetReport {
  const used = usedOf(amounts)
  return { month: dayOf(now).slice(0, 7), limits, used, state: stateOf(boundsOf(limits, used)) }
}
