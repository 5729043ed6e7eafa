import type { Kysely } from 'kysely'
import type {
  LocatedBuild,
  Owned,
  Owner,
  OwnerStore,
  UnfinishedCount,
} from '../../core/cluster/owner-store.ts'
import type { Sandbox } from '../../core/sandbox/row/sandbox.ts'
import type { EarlierRequest, LostCreate } from '../../core/sandbox/row/sandbox-store.ts'
import type { SecretVault } from '../../core/secret/vault.ts'
import type { Tables } from '../database/tables.ts'
import { giveUpCreate } from '../sandbox/give-up-create.ts'
import { isMovable } from '../sandbox/sandbox-queries.ts'
import { hashOf, sandboxOf } from '../sandbox/sandbox-row.ts'
import { findReadyRow } from '../template/ready-build.ts'
import { isUnended } from '../usage/sandbox-counts.ts'

const maxListed = 1000

export class SqlOwnerStore implements OwnerStore {
  readonly #db: Kysely<Tables>
  readonly #vault: SecretVault

  constructor(db: Kysely<Tables>, vault: SecretVault) {
    this.#db = db
    this.#vault = vault
  }

  async ownerOf({ kind, id }: Owned): Promise<Owner | undefined> {
    if (kind === 'node') return { nodeID: id, isMovable: false }
    if (kind === 'sandbox' || kind === 'log') return this.#ownerOfSandbox(id, kind)
    const nodeID = await this.#nodeOf(kind, id)
    return nodeID == null ? undefined : { nodeID, isMovable: false }
  }

  async locateBuild(templateID: string, tagOrBuildID: string): Promise<LocatedBuild | undefined> {
    const row = await findReadyRow(this.#db, { templateID, tagOrBuildID })
    if (!row || row.node_id === null) return undefined
    const { id: buildID, cpu_count: cpuCount, memory_mb: memoryMB, node_id: nodeID } = row
    const gpus = row.gpu_count > 0 ? { gpuCount: row.gpu_count } : {}
    return { buildID, cpuCount, memoryMB, ...gpus, nodeID, isStored: row.stored_at !== null }
  }

  async findSandbox(sandboxID: string): Promise<Sandbox | undefined> {
    const row = await this.#db
      .selectFrom('sandboxes')
      .selectAll()
      .where('id', '=', sandboxID)
      .executeTakeFirst()
    return row && sandboxOf(row, this.#vault)
  }

  async giveBuild(buildID: string, from: string, to: string): Promise<boolean> {
    const { numUpdatedRows } = await this.#db
      .updateTable('template_builds')
      .set({ node_id: to })
      .where('id', '=', buildID)
      .where('status', '=', 'waiting')
      .where('node_id', '=', from)
      .executeTakeFirstOrThrow()
    return numUpdatedRows > 0n
  }

  async readyBuildsOf(nodeID: string): Promise<string[]> {
    const rows = await this.#db
      .selectFrom('template_builds')
      .select('id')
      .where('node_id', '=', nodeID)
      .where('status', '=', 'ready')
      .orderBy('created_at', 'desc')
      .orderBy('id')
      .limit(maxListed)
      .execute()
    return rows.map(({ id }) => id)
  }

  async nodesOfVolumes(teamID: string, names: readonly string[]): Promise<string[]> {
    if (names.length === 0) return []
    const rows = await this.#db
      .selectFrom('volumes')
      .select('node_id')
      .distinct()
      .where('team_id', '=', teamID)
      .where('name', 'in', names)
      .where('state', '=', 'ready')
      .execute()
    return rows.map(({ node_id }) => node_id)
  }

  async nodeOfClaim(teamID: string, key: string): Promise<string | undefined> {
    const row = await this.#db
      .selectFrom('idempotency_claims')
      .innerJoin('sandboxes', 'sandboxes.id', 'idempotency_claims.sandbox_id')
      .select('node_id')
      .where('idempotency_claims.team_id', '=', teamID)
      .where('key_hash', '=', hashOf(key))
      .executeTakeFirst()
    return row?.node_id ?? undefined
  }

  giveUpCreate(lost: LostCreate): Promise<EarlierRequest | undefined> {
    return giveUpCreate(this.#db, this.#vault, lost)
  }

  async countUnfinished(teamID: string, nodeIDs: readonly string[]): Promise<UnfinishedCount> {
    const sandboxes = await this.#db
      .selectFrom('sandboxes')
      .select(({ fn }) => fn.countAll<number>().as('count'))
      .where('team_id', '=', teamID)
      .where('node_id', 'in', nodeIDs)
      .where(isUnended)
      .executeTakeFirstOrThrow()
    const builds = await this.#db
      .selectFrom('template_builds')
      .innerJoin('templates', 'templates.id', 'template_builds.template_id')
      .select(({ fn }) => fn.countAll<number>().as('count'))
      .where('team_id', '=', teamID)
      .where('node_id', 'in', nodeIDs)
      .where('status', 'in', ['waiting', 'building'])
      .executeTakeFirstOrThrow()
    return { sandboxes: Number(sandboxes.count), builds: Number(builds.count) }
  }

  async sandboxesOfTeam(teamID: string, sandboxIDs: readonly string[]): Promise<string[]> {
    if (sandboxIDs.length === 0) return []
    const rows = await this.#db
      .selectFrom('sandboxes')
      .select('id')
      .where('id', 'in', sandboxIDs)
      .where('team_id', '=', teamID)
      .execute()
    const own = new Set(rows.map(({ id }) => id))
    return sandboxIDs.filter((id) => own.has(id))
  }

  /** An ended sandbox has no owner any more, but its log still has one. */
  async #ownerOfSandbox(sandboxID: string, kind: 'sandbox' | 'log'): Promise<Owner | undefined> {
    const row = await this.#db
      .selectFrom('sandboxes')
      .select(['node_id', 'state'])
      .select((select) => select.case().when(isMovable(select)).then(1).else(0).end().as('is_movable'))
      .where('id', '=', sandboxID)
      .executeTakeFirst()
    if (row?.node_id == null) return undefined
    if (kind === 'log') return { nodeID: row.node_id, isMovable: false }
    if (row.state === 'ended') return undefined
    return { nodeID: row.node_id, isMovable: row.is_movable === 1 }
  }

  async #nodeOf(
    kind: Exclude<Owned['kind'], 'node' | 'sandbox' | 'log'>,
    id: string,
  ): Promise<string | null | undefined> {
    if (kind === 'quarantined') return this.#nodeOfQuarantined(id)
    if (kind === 'template') return this.#nodeOfUnfinishedBuild(id)
    if (kind === 'build') return this.#nodeIn('template_builds', id)
    const lostBy = kind === 'lost volume' ? await this.#nodeIn('lost_volumes', id) : undefined
    return lostBy ?? this.#nodeIn('volumes', id)
  }

  async #nodeOfQuarantined(snapshotName: string): Promise<string | undefined> {
    const row = await this.#db
      .selectFrom('quarantine')
      .select('node_id')
      .where('snapshot_name', '=', snapshotName)
      .executeTakeFirst()
    return row?.node_id
  }

  async #nodeIn(
    table: 'template_builds' | 'volumes' | 'lost_volumes',
    id: string,
  ): Promise<string | null | undefined> {
    const row = await this.#db.selectFrom(table).select('node_id').where('id', '=', id).executeTakeFirst()
    return row?.node_id
  }

  async #nodeOfUnfinishedBuild(templateID: string): Promise<string | null | undefined> {
    const row = await this.#db
      .selectFrom('template_builds')
      .select('node_id')
      .where('template_id', '=', templateID)
      .where('status', 'in', ['waiting', 'building'])
      .orderBy('created_at', 'desc')
      .orderBy('id')
      .limit(1)
      .executeTakeFirst()
    return row?.node_id
  }
}
