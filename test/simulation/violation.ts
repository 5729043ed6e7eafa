/** What must hold did not. */
export class Violation extends Error {
  readonly rule: Rule

  constructor(rule: Rule, text: string) {
    super(`${rule}: ${text}`)
    this.name = 'Violation'
    this.rule = rule
  }

  /** The same for all that break the rule in the same way, whatever the ids and the times. */
  get kind(): string {
    return this.message.replaceAll(/\bi[a-z0-9]{4}\b|\b[0-9a-f]{4}\b|\d+/g, '…')
  }
}

export const rules = [
  'legal transitions',
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
  'events',
  'one copy',
  'pack needed',
  'own sandbox',
  'route',
  'volume needed',
  'stranger',
  'drain',
  'admission',
  'webhooks',
  'neighbour',
  'killed',
  'name kept',
  'rate',
  'sign of life',
] as const

export type Rule = (typeof rules)[number]
