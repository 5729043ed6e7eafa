/**
 * The database: SQL over SQLite or PostgreSQL with one code path and one set of migrations. It knows rows and
 * their constraints; it knows no HTTP, no driver and no clock.
 */
import { join } from 'node:path'
import { type Dialect, Kysely } from 'kysely'
import type { SecretVault } from '../core/secret/vault.ts'
import { AppError } from '../lib/app-error.ts'
import { SqlAuditStore } from './audit/audit-lines.ts'
import { audited } from './database/audited.ts'
import { forOperator } from './database/database-trouble.ts'
import type { StatementLimit } from './database/postgres.ts'
import { sqliteDialect } from './database/sqlite.ts'
import type { Tables } from './database/tables.ts'
import type { SyncLog } from './database/wal-sync.ts'
import { SqlDeliveryStore } from './event/deliveries.ts'
import { SqlEventStore } from './event/events.ts'
import { SqlWebhookStore } from './event/webhooks.ts'
import { migrate, migrationsWith } from './migrate.ts'
import { SqlLeaseStore } from './node/leases.ts'
import { SqlNodeStore } from './node/nodes.ts'
import { SqlOwnerStore } from './node/owner-lookup.ts'
import { adoptRows, soleNode } from './node/owners.ts'
import { SqlSharedValueStore } from './node/shared-values.ts'
import { SqlRemoteBytesStore } from './objects/remote-bytes.ts'
import { SqlMemberStore } from './person/members.ts'
import { SqlPersonStore } from './person/people.ts'
import { SqlMetricStore } from './sandbox/metrics.ts'
import { SqlSandboxStore } from './sandbox/sandboxes.ts'
import { SqlSecretStore } from './secret/secrets.ts'
import { SqlSessionStore } from './sign-in/sessions.ts'
import { SqlQuarantineStore } from './snapshot/quarantine.ts'
import type { Stores } from './stores.ts'
import { SqlAccessTokenStore } from './team/access-tokens.ts'
import { SqlKeyStore } from './team/keys.ts'
import { SqlTeamMetricStore } from './team/team-metrics.ts'
import { SqlTeamStore } from './team/teams.ts'
import { SqlBuildCacheStore } from './template/build-cache.ts'
import { SqlTemplateStore } from './template/templates.ts'
import { SqlUsageStore } from './usage/usage-days.ts'
import { SqlLostVolumeStore } from './volume/lost-volumes.ts'
import { SqlVolumeStore } from './volume/volumes.ts'

/**
 * Longer than any statement of a Warren takes on a busy server, except those of migrations. A session of PostgreSQL can hang alone,
 * for example on a disk.
 */
const statementWithinMs = 60_000

type StoreOptions = {
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
  const db = new Kysely<Tables>({ dialect: audited(await dialectFor(options, limit)) })
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
    audit: new SqlAuditStore(db),
    people: new SqlPersonStore(db),
    members: new SqlMemberStore(db),
    sessions: new SqlSessionStore(db),
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
    usage: new SqlUsageStore(db),
    webhooks: new SqlWebhookStore(db),
    deliveries: new SqlDeliveryStore(db),
    remoteBytes: new SqlRemoteBytesStore(db, nodeID),
    leases: new SqlLeaseStore(db, nodeID),
    sharedValues: new SqlSharedValueStore(db),
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
    return (await import('./database/postgres.ts')).postgresDialect(url, { connections, limit })
  throw new AppError(
    'invalid_argument',
    'The database URL must begin with postgres:// or postgresql://; leave WARREN_DATABASE_URL unset to use ' +
      'a SQLite file in the data folder',
  )
}
