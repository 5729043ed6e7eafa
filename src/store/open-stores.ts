/**
 * The database: SQL over SQLite or PostgreSQL with one code path and one set of migrations. It knows rows and
 * their constraints; it knows no HTTP, no driver and no clock.
 */
import { join } from 'node:path'
import { type Dialect, Kysely } from 'kysely'
import type { SecretVault } from '../core/secret/vault.ts'
import { AppError } from '../lib/app-error.ts'
import { SqlAccessTokenStore } from './access-tokens.ts'
import { SqlBuildCacheStore } from './build-cache.ts'
import { forOperator } from './database-trouble.ts'
import { SqlDeliveryStore } from './deliveries.ts'
import { SqlEventStore } from './events.ts'
import { SqlKeyStore } from './keys.ts'
import { SqlLeaseStore } from './leases.ts'
import { SqlLostVolumeStore } from './lost-volumes.ts'
import { SqlMetricStore } from './metrics.ts'
import { migrate, migrationsWith } from './migrate.ts'
import { SqlNodeStore } from './nodes.ts'
import { SqlOwnerStore } from './owner-lookup.ts'
import { adoptRows, soleNode } from './owners.ts'
import type { StatementLimit } from './postgres.ts'
import { SqlQuarantineStore } from './quarantine.ts'
import { SqlSandboxStore } from './sandboxes.ts'
import { SqlSecretStore } from './secrets.ts'
import { sqliteDialect } from './sqlite.ts'
import { SqlStoredBytesStore } from './stored-bytes.ts'
import type { Stores } from './stores.ts'
import type { Tables } from './tables.ts'
import { SqlTeamMetricStore } from './team-metrics.ts'
import { SqlTeamStore } from './teams.ts'
import { SqlTemplateStore } from './templates.ts'
import { SqlVolumeStore } from './volumes.ts'
import type { SyncLog } from './wal-sync.ts'
import { SqlWebhookStore } from './webhooks.ts'

/**
 * Longer than any statement of a Warren takes on a busy server, except those of migrations. A session of PostgreSQL can hang alone,
 * for example on a disk.
 */
const statementWithinMs = 60_000

export type StoreOptions = {
  /** Undefined: a SQLite file in the data folder. */
  url: string | undefined
  /** The most connections to PostgreSQL at once. */
  connections?: number
  dataFolder: string
  /** Seals credentials in rows. */
  vault: SecretVault
  /** Identifies this Warren among those on the database. */
  nodeID?: string
  /** Replaces the sync of SQLite's log, for tests, whose data need not survive the machine. */
  syncLog?: SyncLog
  /** Takes over rows without an owner, which this data folder wrote before rows had owners. */
  adopts?: boolean
}

export async function openStores(options: StoreOptions): Promise<Stores> {
  const { vault, nodeID = soleNode, adopts = false } = options
  const db = await openDatabase(options)
  if (adopts) await adoptRows(db, nodeID)
  return storesOver(db, vault, nodeID)
}

/** Opens the database and migrates its tables. */
export async function openDatabase(options: StoreOptions): Promise<Kysely<Tables>> {
  const limit: StatementLimit = {}
  const db = new Kysely<Tables>({ dialect: await dialectFor(options, limit) })
  try {
    await migrate(db, migrationsWith(options.vault))
    limit.statementMs = statementWithinMs
    return db
  } catch (error) {
    await db.destroy().catch(() => {})
    throw forOperator(error)
  }
}

export function storesOver(db: Kysely<Tables>, vault: SecretVault, nodeID = soleNode): Stores {
  return {
    teams: new SqlTeamStore(db),
    keys: new SqlKeyStore(db),
    accessTokens: new SqlAccessTokenStore(db),
    teamMetrics: new SqlTeamMetricStore(db, nodeID),
    templates: new SqlTemplateStore(db, nodeID),
    sandboxes: new SqlSandboxStore(db, vault, nodeID),
    quarantine: new SqlQuarantineStore(db),
    metrics: new SqlMetricStore(db),
    buildCache: new SqlBuildCacheStore(db, nodeID),
    secrets: new SqlSecretStore(db),
    volumes: new SqlVolumeStore(db, nodeID),
    lostVolumes: new SqlLostVolumeStore(db, nodeID),
    events: new SqlEventStore(db),
    webhooks: new SqlWebhookStore(db),
    deliveries: new SqlDeliveryStore(db),
    storedBytes: new SqlStoredBytesStore(db, nodeID),
    leases: new SqlLeaseStore(db, nodeID),
    nodes: new SqlNodeStore(db, vault),
    owners: new SqlOwnerStore(db, vault),
    close: () => db.destroy(),
  }
}

async function dialectFor(
  { url, connections, dataFolder, syncLog }: StoreOptions,
  limit: StatementLimit,
): Promise<Dialect> {
  if (url === undefined) return sqliteDialect(join(dataFolder, 'warren.db'), syncLog)
  if (/^postgres(ql)?:\/\//.test(url))
    return (await import('./postgres.ts')).postgresDialect(url, { connections, limit })
  throw new AppError(
    'invalid_argument',
    'The database URL must begin with postgres:// or postgresql://; leave WARREN_DATABASE_URL unset to use ' +
      'a SQLite file in the data folder',
  )
}
