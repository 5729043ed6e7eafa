/**
 * Which Warrens can work with a database that a newer one has migrated. Every migration says whether it only adds
 * (`expand`), or removes something that builds since a named migration no longer use (`contract`). The newest
 * migration writes the resulting requirement into the database, in its own transaction: the oldest migration that
 * a build must know. An older build that starts again reads it and does not have to know what was added.
 */
import type { Kysely, Migration } from 'kysely'
import type { Tables } from './tables.ts'

/**
 * `expand`: builds that do not know this migration can go on reading and writing all tables.
 * `contract`: builds can do so only if they know the migration of that name.
 */
export type SchemaPhase = 'expand' | { contract: string }

/** A migration without a phase is older than phases. Only builds that know it can use the tables after it. */
export type SchemaStep = Migration & { phase?: SchemaPhase }

/** The last migration that may lack a phase. */
export const lastWithoutPhase = '0026-older-clients'

const valueName = 'oldest migration that a Warren must know'
/** Creates the table that holds the requirement. */
const firstRecorded = '0017-nodes'

/** The oldest migration that a build must know to use a database with exactly these migrations. */
function requirementOf(steps: Readonly<Record<string, SchemaStep>>): string | undefined {
  const required = Object.entries(steps).flatMap(([name, { phase }]) => {
    if (phase === undefined) return [name]
    return phase === 'expand' ? [] : [phase.contract]
  })
  return required.sort().at(-1)
}

/** The same migrations, each of which also writes the requirement of the tables that it leaves. */
export function withRequirement(known: Readonly<Record<string, SchemaStep>>): Record<string, Migration> {
  const entries = Object.entries(known).map(([name, step]): [string, Migration] => {
    const upTo = Object.entries(known).filter(([other]) => other <= name)
    const required = requirementOf(Object.fromEntries(upTo))
    if (name < firstRecorded || required === undefined) return [name, step]
    const up = async (db: Kysely<Tables>) => {
      await step.up(db)
      await db
        .insertInto('shared_values')
        .values({ name: valueName, value: required })
        .onConflict((conflict) => conflict.column('name').doUpdateSet({ value: required }))
        .execute()
    }
    return [name, { up }]
  })
  return Object.fromEntries(entries)
}

/** Says why a build that knows these migrations cannot use the database. Undefined: it can. */
export async function whyUnusable(
  db: Kysely<Tables>,
  known: Readonly<Record<string, SchemaStep>>,
): Promise<string | undefined> {
  const row = await db
    .selectFrom('shared_values')
    .select('value')
    .where('name', '=', valueName)
    .executeTakeFirst()
  if (row === undefined) return 'It does not say which older versions can use it.'
  if (Object.hasOwn(known, row.value)) return undefined
  return `It needs a version that knows ${row.value}.`
}
