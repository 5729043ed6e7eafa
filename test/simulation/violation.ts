/** What must hold did not. `rule` is the same for all that break it in the same way; it is what a shrink keeps. */
export class Violation extends Error {
  readonly rule: Rule

  constructor(rule: Rule, text: string) {
    super(`${rule}: ${text}`)
    this.name = 'Violation'
    this.rule = rule
  }
}

export const rules = [
  'legal moves',
  'limits',
  'reason told',
  'lifetime',
  'snapshot needed',
  'no orphan',
  'row and reality',
  'content kept',
  'idempotency',
  'failed create',
  'answer true',
  'rest',
  'overdue',
  'egress policy',
  'error in words',
] as const

export type Rule = (typeof rules)[number]
