/**
 * Checks that the statements of a migration only expand: that a Warren that does not know the migration can go on
 * reading and writing all tables. Only statements that are known to be harmless pass.
 */
import { Kysely, type KyselyConfig } from 'kysely'
import type { SchemaStep } from '../database/schema-requirement.ts'
import type { Tables } from '../database/tables.ts'
import { migrate } from '../migrate.ts'

/** Migrates an empty database, and returns the statements of each migration, in lower case without quotes. */
export async function statementsOf(
  known: Readonly<Record<string, SchemaStep>>,
  dialect: KyselyConfig['dialect'],
): Promise<Map<string, string[]>> {
  const statements = new Map<string, string[]>()
  let current: string[] | undefined
  const db = new Kysely<Tables>({
    dialect,
    log: ({ query }) => void current?.push(query.sql.toLowerCase().replaceAll('"', '').replace(/\s+/g, ' ')),
  })
  const recorded = Object.entries(known).map(([name, step]): [string, SchemaStep] => {
    const up = async (part: Kysely<never>) => {
      current = []
      statements.set(name, current)
      await step.up(part)
      current = undefined
    }
    return [name, { ...step, up }]
  })
  try {
    await migrate(db, Object.fromEntries(recorded))
  } finally {
    await db.destroy()
  }
  return statements
}

/** The first statement that may break an older Warren. Undefined: there is none. */
export function firstBreaking(statements: readonly string[]): string | undefined {
  const created = new Set<string>()
  const added = new Set<string>()
  return statements.find((text) => {
    const [, table = ''] = /^(?:create table|alter table|update|insert into) (\w+)/.exec(text) ?? []
    if (/^select /.test(text)) return false
    if (/^create table /.test(text)) {
      created.add(table)
      return blocksDeletes(text, created)
    }
    if (/^create index /.test(text)) return false
    const [, indexed] = /^create unique index \w+ on (\w+)/.exec(text) ?? []
    if (indexed !== undefined) return !created.has(indexed)
    if (/^alter table \w+ add column /.test(text)) {
      added.add(table)
      const needsValue = / not null/.test(text) && !/ default /.test(text)
      return !created.has(table) && (needsValue || / unique/.test(text) || blocksDeletes(text, created))
    }
    if (/^(?:update|insert into) /.test(text)) return !created.has(table) && !added.has(table)
    return true
  })
}

/** An older Warren deletes rows of the tables that it knows, and no rows that refer to them from others. */
function blocksDeletes(text: string, created: ReadonlySet<string>): boolean {
  const references = text.split(' references ').slice(1)
  return references.some((part) => {
    const [, table = ''] = /^(\w+)/.exec(part) ?? []
    return !created.has(table) && !/^[^,]* on delete (?:cascade|set null)/.test(part)
  })
}
