/** Which teams and roles the groups of a provider stand for. */
import { atLeast, isRole, type Role } from '../person/person.ts'

/** `*` is everybody who can sign in. */
export type GroupRule = { group: string; grants: 'operator' | { team: string; role: Role } }

type Grants = { isOperator: boolean; roles: ReadonlyMap<string, Role> }

/**
 * Reads `GROUP=TEAM:ROLE` and `GROUP=operator`, separated by semicolons. The last `=` separates, because names of groups
 * may be names of a directory, such as `CN=developers,OU=groups`. Undefined if the text is none of this.
 */
export function parseGroupRules(text: string): readonly GroupRule[] | undefined {
  const rules: GroupRule[] = []
  for (const part of text.split(';')) {
    if (part.trim() === '') continue
    const rule = parseRule(part.trim())
    if (!rule) return undefined
    rules.push(rule)
  }
  return rules
}

function parseRule(text: string): GroupRule | undefined {
  const at = text.lastIndexOf('=')
  const group = text.slice(0, Math.max(at, 0)).trim()
  const target = text.slice(at + 1).trim()
  if (group === '') return undefined
  if (target === 'operator') return group === '*' ? undefined : { group, grants: 'operator' }
  const [, team, named] = /^([a-z0-9][a-z0-9-_]*):([a-z]+)$/.exec(target) ?? []
  if (team === undefined || named === undefined || !isRole(named)) return undefined
  return { group, grants: { team, role: named } }
}

/** Of several rules for one team, the highest role counts. */
export function grantsOf(groups: readonly string[], rules: readonly GroupRule[]): Grants {
  const has = new Set(groups)
  const granted = new Map<string, Role>()
  let isOperator = false
  for (const { group, grants } of rules) {
    if (group !== '*' && !has.has(group)) continue
    if (grants === 'operator') {
      isOperator = true
      continue
    }
    const before = granted.get(grants.team)
    if (before === undefined || !atLeast(before, grants.role)) granted.set(grants.team, grants.role)
  }
  return { isOperator, roles: granted }
}
