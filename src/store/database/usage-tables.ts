/** The rows of usage and budgets. */

export type UsageDayRow = {
  team_id: string
  /** Empty: no person. */
  person_id: string
  day: string
  running_ms: number
  cpu_ms: number
  memory_mb_ms: number
  gpu_ms: number
  sent_bytes: number
  stored_mb_ms: number
}

export type TeamBudgetRow = {
  team_id: string
  cpu_hours: number | null
  gpu_hours: number | null
  sent_gb: number | null
}
