import { type Kysely, Migrator, sql } from 'kysely'
import type { SecretVault } from '../core/secret/vault.ts'
import { AppError, isAppError } from '../lib/app-error.ts'
import { type SchemaStep, whyUnusable, withRequirement } from './database/schema-requirement.ts'
import type { Tables } from './database/tables.ts'
import * as firstTables from './migrations/0001-first-tables.ts'
import * as metrics from './migrations/0002-metrics.ts'
import * as savedStates from './migrations/0003-saved-states.ts'
import * as builds from './migrations/0004-builds.ts'
import * as secrets from './migrations/0005-secrets.ts'
import { sealedNetworks } from './migrations/0006-sealed-networks.ts'
import * as owners from './migrations/0007-owners.ts'
import * as quarantine from './migrations/0008-quarantine.ts'
import * as accessTokens from './migrations/0009-access-tokens.ts'
import * as indexesOfSandboxes from './migrations/0010-indexes-of-sandboxes.ts'
import * as volumes from './migrations/0011-volumes.ts'
import * as events from './migrations/0012-events.ts'
import * as serviceContexts from './migrations/0014-service-contexts.ts'
import * as sandboxCounts from './migrations/0016-sandbox-counts.ts'
import * as nodes from './migrations/0017-nodes.ts'
import * as storedBytes from './migrations/0018-stored-bytes.ts'
import * as startRequests from './migrations/0021-start-requests.ts'
import * as departures from './migrations/0022-departures.ts'
import * as condemnedObjects from './migrations/0023-condemned-objects.ts'
import * as autoPause from './migrations/0024-auto-pause.ts'
import * as gpus from './migrations/0025-gpus.ts'
import * as olderClients from './migrations/0026-older-clients.ts'
import * as lostVolumes from './migrations/0027-lost-volumes.ts'
import * as rowVersions from './migrations/0028-row-versions.ts'
import * as givenUpCreates from './migrations/0029-given-up-creates.ts'
import * as doubtedBuilds from './migrations/0030-doubted-builds.ts'
import * as people from './migrations/0031-people.ts'
import * as audit from './migrations/0032-audit.ts'
import * as sessions from './migrations/0034-sessions.ts'
import * as usage from './migrations/0038-usage.ts'

/** Ordered by name. A released migration is never changed, only followed by another. */
export const migrationsWith = (vault: SecretVault): Record<string, SchemaStep> => ({
  '0001-first-tables': firstTables,
  '0002-metrics': metrics,
  '0003-saved-states': savedStates,
  '0004-builds': builds,
  '0005-secrets': secrets,
  '0006-sealed-networks': sealedNetworks(vault),
  '0007-owners': owners,
  '0008-quarantine': quarantine,
  '0009-access-tokens': accessTokens,
  '0010-indexes-of-sandboxes': indexesOfSandboxes,
  '0011-volumes': volumes,
  '0012-events': events,
  '0014-service-contexts': serviceContexts,
  '0016-sandbox-counts': sandboxCounts,
  '0017-nodes': nodes,
  '0018-stored-bytes': storedBytes,
  '0021-start-requests': startRequests,
  '0022-departures': departures,
  '0023-condemned-objects': condemnedObjects,
  '0024-auto-pause': autoPause,
  '0025-gpus': gpus,
  '0026-older-clients': olderClients,
  '0027-lost-volumes': lostVolumes,
  '0028-row-versions': rowVersions,
  '0029-given-up-creates': givenUpCreates,
  '0030-doubted-builds': doubtedBuilds,
  '0031-people': people,
  '0032-audit': audit,
  '0034-sessions': sessions,
  '0038-usage': usage,
})

/**
 * Migrates the tables to those of this build, completely or not at all. Leaves a database of a newer build as it
 * is, and rejects it if this build cannot work with it.
 */
export async function migrate(db: Kysely<Tables>, known: Record<string, SchemaStep>): Promise<void> {
  const migrator = new Migrator({ db, provider: { getMigrations: async () => withRequirement(known) } })
  const { error } = await migrator.migrateToLatest()
  if (error === undefined) return
  if (isAppError(error)) throw error
  const executed = await sql<{ name: string }>`select name from kysely_migration order by name`.execute(db)
  const names = executed.rows.map(({ name }) => name)
  const unknown = names.filter((name) => !(name in known))
  const hasAll = Object.keys(known).every((name) => names.includes(name))
  if (unknown.length > 0 && hasAll) {
    const why = await whyUnusable(db, known)
    if (why === undefined) return
    throw new AppError(
      'internal',
      `The database was last used by a newer Warren (it has ${unknown.join(', ')}, which this version does ` +
        `not know). ${why} Start the newer version, or restore a backup made before the upgrade`,
      { cause: error },
    )
  }
  if (unknown.length > 0) {
    throw new AppError(
      'internal',
      `The database was used by another Warren: it has ${unknown.join(', ')}, which this version does not ` +
        'know, and lacks tables or columns of this version. Start the version that used it last',
      { cause: error },
    )
  }
  throw new AppError(
    'internal',
    'The database tables could not be brought up to date; the log has the cause',
    {
      cause: error,
    },
  )
}
