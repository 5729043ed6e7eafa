/** A database that a newer Warren has migrated, used by an older one that starts again, on both engines. */
import assert from 'node:assert/strict'
import type { Kysely } from 'kysely'
import { isAppError } from '../../lib/app-error.ts'
import type { SchemaPhase, SchemaStep } from '../database/schema-requirement.ts'
import type { Tables } from '../database/tables.ts'
import { migrate, migrationsWith } from '../migrate.ts'
import { storesOver } from '../open-stores.ts'
import { aNode } from './nodes.ts'
import { insertSandboxIn, insertTeam, vault } from './rows.ts'

const known = migrationsWith(vault)

export const addsTable = (phase?: SchemaPhase): SchemaStep => ({
  up: (db: Kysely<never>) => db.schema.createTable('later').addColumn('id', 'text').execute(),
  ...(phase && { phase }),
})

const addsColumns: SchemaStep = {
  async up(db: Kysely<never>) {
    for (const table of await db.introspection.getTables())
      await db.schema
        .alterTable(table.name)
        .addColumn('added_later', 'text', (column) => column.notNull().defaultTo(''))
        .execute()
  },
  phase: 'expand',
}

const rejected = (migration: string, text: string) => (error: unknown) => {
  assert.ok(isAppError(error, 'internal'), String(error))
  return error.message.includes(migration) && error.message.includes(text)
}

/** The database is empty. Stores that were opened before the upgrade are used too. */
export async function olderWorksBesideNewer(db: Kysely<Tables>): Promise<void> {
  await migrate(db, known)
  const before = storesOver(db, vault)
  await migrate(db, { ...known, '9998-later': addsTable('expand'), '9999-columns': addsColumns })
  await migrate(db, known)
  for (const [index, stores] of [before, storesOver(db, vault)].entries()) {
    const team = await insertTeam(stores)
    const { sandboxID, state } = await insertSandboxIn(stores, team.teamID, 'running')
    assert.equal(state, 'running')
    assert.equal((await stores.sandboxes.find(sandboxID))?.sandboxID, sandboxID)
    await stores.nodes.join(aNode(`older-${index}`))
    assert.equal((await stores.nodes.list()).length, index + 1)
  }
}

/** The database is empty. */
export async function tooOldIsRejected(db: Kysely<Tables>): Promise<void> {
  const expanded = { ...known, '9997-later': addsTable('expand') }
  const contracts: SchemaStep = {
    up: (part: Kysely<never>) => part.schema.dropTable('later').execute(),
    phase: { contract: '9997-later' },
  }
  const contracted = { ...expanded, '9998-contracts': contracts }
  await migrate(db, expanded)
  await migrate(db, known)
  await migrate(db, contracted)
  await assert.rejects(
    migrate(db, known),
    rejected('9998-contracts', 'needs a version that knows 9997-later'),
  )
  await migrate(db, expanded)
  // A later expansion does not lower what the contraction requires.
  await migrate(db, { ...contracted, '9999-columns': addsColumns })
  await assert.rejects(migrate(db, known), rejected('9999-columns', '9997-later'))
  await migrate(db, expanded)
  await db.deleteFrom('shared_values').execute()
  await assert.rejects(migrate(db, expanded), rejected('9999-columns', 'does not say'))
}

/** The database is empty. A build of another branch has a migration in the place of one of this build. */
export async function otherBranchIsRejected(db: Kysely<Tables>): Promise<void> {
  const [last] = Object.keys(known).sort().slice(-1)
  const { [last!]: _, ...fewer } = known
  await migrate(db, { ...fewer, '9999-other': addsTable('expand') })
  await assert.rejects(migrate(db, known), rejected('9999-other', 'lacks tables or columns'))
}
