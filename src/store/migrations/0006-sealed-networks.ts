import type { Kysely, Migration } from 'kysely'
import type { SecretVault } from '../../core/secret/vault.ts'
import type { Tables } from '../database/tables.ts'
import { optionColumns } from '../sandbox/sandbox-options.ts'

/**
 * Seals the networks in existing rows, and removes `mcp`, which nothing ever read and which may hold keys.
 */
export const sealedNetworks = (vault: SecretVault): Migration => ({
  async up(db: Kysely<Tables>): Promise<void> {
    for (const column of ['network_key_id', 'network_sealed']) {
      await db.schema.alterTable('sandboxes').addColumn(column, 'text').execute()
    }
    const rows = await db
      .selectFrom('sandboxes')
      .select(['id', 'team_id', 'options'])
      .where((where) => where.or(['network', 'mcp'].map((name) => where('options', 'like', `%"${name}":{%`))))
      .execute()
    for (const { id, team_id: teamID, options } of rows) {
      const { mcp: _, ...rest } = JSON.parse(options)
      const columns = optionColumns({ sandboxID: id, teamID }, rest, vault)
      await db.updateTable('sandboxes').set(columns).where('id', '=', id).execute()
    }
  },
})
