import type { Kysely } from 'kysely'
import { buildKey, layerKey, sandboxKey } from '../../core/object-storage/keys.ts'
import type {
  NeededBytes,
  PausedSandbox,
  RemoteBytes,
  RemoteBytesStore,
  StorableBuild,
} from '../../core/object-storage/remote-bytes-store.ts'
import type { SandboxSnapshot } from '../../core/sandbox/row/sandbox.ts'
import type { InTurn } from '../../lib/turns.ts'
import {
  nothingStored,
  type RemoteColumns,
  remoteColumnNames,
  remoteColumns,
  storedIn,
} from '../database/remote-columns.ts'
import type { SandboxRow, Tables, TemplateBuildRow } from '../database/tables.ts'
import { unendedInParts } from '../sandbox/sandbox-list.ts'
import { isMovable } from '../sandbox/sandbox-queries.ts'
import { nextVersion } from '../sandbox/sandbox-update.ts'
import { digestsIn } from '../template/template-row.ts'
import { CondemnedObjects } from './condemned.ts'

type PausedRow = RemoteColumns & Pick<SandboxRow, 'id' | 'run_id' | 'version' | 'node_id' | 'saved'>

const pausedColumns = ['id', 'run_id', 'version', 'node_id', 'saved', ...remoteColumnNames] as const
/** Limits a statement to the number of values that an engine takes. */
const idsPerQuery = 1000

const maxForeign = 1000
/** How many sandboxes and builds show whether a place is the object store of the rows. */
const someStored = 5
/** More than all nodes of a cluster move at once. */
const maxDepartures = 1000

export class SqlRemoteBytesStore implements RemoteBytesStore {
  readonly #db: Kysely<Tables>
  readonly #nodeID: string
  readonly #condemned: CondemnedObjects

  constructor(db: Kysely<Tables>, nodeID: string) {
    this.#db = db
    this.#nodeID = nodeID
    this.#condemned = new CondemnedObjects(db, nodeID)
  }

  async findPaused(sandboxID: string): Promise<PausedSandbox | undefined> {
    const row = await this.#db
      .selectFrom('sandboxes')
      .select(pausedColumns)
      .where('id', '=', sandboxID)
      .where('state', '=', 'paused')
      .executeTakeFirst()
    return row && pausedOf(row)[0]
  }

  async listUnstored(): Promise<PausedSandbox[]> {
    const found: PausedSandbox[] = []
    const parts = unendedInParts(this.#db, (part) =>
      part
        .select(pausedColumns)
        .where('node_id', '=', this.#nodeID)
        .where('state', '=', 'paused')
        .where('is_frozen', '=', 0)
        .where('stored_at', 'is', null)
        .execute(),
    )
    for await (const rows of parts) found.push(...rows.flatMap(pausedOf))
    return found
  }

  async markSandbox(
    { sandboxID, runID }: { sandboxID: string; runID: string },
    stored: RemoteBytes,
  ): Promise<boolean> {
    const { numUpdatedRows } = await this.#db
      .updateTable('sandboxes')
      .set(remoteColumns(stored))
      .where('id', '=', sandboxID)
      .where('run_id', '=', runID)
      .where('state', '=', 'paused')
      .where('is_frozen', '=', 0)
      .where('node_id', '=', this.#nodeID)
      .executeTakeFirstOrThrow()
    return numUpdatedRows > 0n
  }

  async claim(at: InTurn<PausedSandbox>, snapshotName: string): Promise<boolean> {
    const { sandboxID } = at
    const row = await this.#db
      .selectFrom('sandboxes')
      .select('saved')
      .where('id', '=', sandboxID)
      .executeTakeFirst()
    if (row?.saved == null) return false
    const saved: SandboxSnapshot = { ...JSON.parse(row.saved), name: snapshotName }
    const { numUpdatedRows } = await this.#db
      .updateTable('sandboxes')
      .set({ node_id: this.#nodeID, saved: JSON.stringify(saved), ...nextVersion })
      .where('id', '=', sandboxID)
      .where('run_id', '=', at.runID)
      .where('node_id', '=', at.nodeID)
      .where('version', '=', at.version)
      .where(isMovable)
      // An owner of an earlier release corrects the snapshot without a new version: the correction would be lost.
      .where('saved', '=', row.saved)
      .executeTakeFirstOrThrow()
    return numUpdatedRows > 0n
  }

  async listDepartures(): Promise<PausedSandbox[]> {
    const rows = await this.#db
      .selectFrom('sandboxes')
      .select(pausedColumns)
      .where('run_until', 'is not', null)
      .where('state', '=', 'paused')
      .orderBy('run_until')
      .limit(maxDepartures)
      .execute()
    return rows.flatMap(pausedOf)
  }

  async listElsewhere(sandboxIDs: readonly string[]): Promise<string[]> {
    const found: string[] = []
    for (let start = 0; start < sandboxIDs.length; start += idsPerQuery) {
      const rows = await this.#db
        .selectFrom('sandboxes')
        .select('id')
        .where('id', 'in', sandboxIDs.slice(start, start + idsPerQuery))
        .where('node_id', '<>', this.#nodeID)
        .execute()
      found.push(...rows.map(({ id }) => id))
    }
    return found
  }

  listUnstoredBuilds(): Promise<StorableBuild[]> {
    return storable(
      this.#readyBuilds()
        .where('node_id', '=', this.#nodeID)
        .where((where) => where.or([where('stored_at', 'is', null), where('doubted_at', 'is not', null)])),
    )
  }

  listForeignBuilds(): Promise<StorableBuild[]> {
    return storable(
      this.#readyBuilds()
        .where('node_id', '<>', this.#nodeID)
        .where('stored_at', 'is not', null)
        .limit(maxForeign),
    )
  }

  /** Newest first. A build of an early version uses a folder that only its own machine has. */
  #readyBuilds() {
    return this.#db
      .selectFrom('template_builds')
      .select(['id', 'layers', 'saved_name', 'doubted_at'])
      .where('status', '=', 'ready')
      .where('layers', 'is not', null)
      .orderBy('created_at', 'desc')
  }

  async renameLayers(buildID: string, from: readonly string[], to: readonly string[]): Promise<boolean> {
    const { numUpdatedRows } = await this.#db
      .updateTable('template_builds')
      .set({ layers: JSON.stringify(to) })
      .where('id', '=', buildID)
      .where('node_id', '=', this.#nodeID)
      .where('layers', '=', JSON.stringify(from))
      .executeTakeFirstOrThrow()
    return numUpdatedRows > 0n
  }

  async markBuild(buildID: string, stored: RemoteBytes): Promise<boolean> {
    const { numUpdatedRows } = await this.#db
      .updateTable('template_builds')
      .set({ ...remoteColumns(stored), doubted_at: null })
      .where('id', '=', buildID)
      .where('status', '=', 'ready')
      .executeTakeFirstOrThrow()
    return numUpdatedRows > 0n
  }

  async doubtBuild(buildID: string, at: number): Promise<void> {
    await this.#db
      .updateTable('template_builds')
      .set({ doubted_at: at })
      .where('id', '=', buildID)
      .where('stored_at', 'is not', null)
      .execute()
  }

  async unmarkBuild(buildID: string): Promise<void> {
    await this.#db.updateTable('template_builds').set(nothingStored).where('id', '=', buildID).execute()
  }

  async findStoredBuild(buildID: string): Promise<RemoteBytes | undefined> {
    const row = await this.#db
      .selectFrom('template_builds')
      .select(remoteColumnNames)
      .where('id', '=', buildID)
      .executeTakeFirst()
    return (row && storedIn(row)) ?? undefined
  }

  async listSomeStored(): Promise<string[]> {
    const sandboxes = await this.#db
      .selectFrom('sandboxes')
      .select(['id', 'run_id'])
      .where('state', '=', 'paused')
      .where('stored_at', 'is not', null)
      .orderBy('stored_at', 'desc')
      .limit(someStored)
      .execute()
    const builds = await this.#db
      .selectFrom('template_builds')
      .select(['layers', 'saved_name'])
      .where('status', '=', 'ready')
      .where('stored_at', 'is not', null)
      .where('layers', 'is not', null)
      .orderBy('stored_at', 'desc')
      .limit(someStored)
      .execute()
    const keysOf = ({ layers, saved_name: name }: (typeof builds)[number]) => [
      ...(name === null ? [] : [buildKey(name)]),
      ...(JSON.parse(layers!) as string[]).slice(-1).map(layerKey),
    ]
    return [
      ...sandboxes.map(({ id, run_id }) => sandboxKey({ sandboxID: id, runID: run_id })),
      ...builds.flatMap(keysOf),
    ]
  }

  async listNeeded(): Promise<NeededBytes> {
    const runs: NeededBytes['runs'] = []
    const parts = unendedInParts(this.#db, (part) => part.select(['id', 'run_id', 'saved']).execute())
    for await (const rows of parts) {
      for (const { id, run_id, saved } of rows) {
        runs.push({ sandboxID: id, runID: run_id })
        const { arrivesFrom, storedFrom }: Partial<SandboxSnapshot> = saved === null ? {} : JSON.parse(saved)
        for (const from of [arrivesFrom, storedFrom])
          if (from) runs.push({ sandboxID: id, runID: from.runID })
      }
    }
    const builds = await this.#db
      .selectFrom('template_builds')
      .select(['layers', 'saved_name'])
      .where('status', '<>', 'error')
      .execute()
    const layers = digestsIn(
      builds.filter((row): row is typeof row & { layers: string } => row.layers !== null),
    )
    const snapshotNames = builds.flatMap(({ saved_name }) => (saved_name === null ? [] : [saved_name]))
    return { runs, layers, snapshotNames }
  }

  condemn(keys: readonly string[], at: number): Promise<void> {
    return this.#condemned.condemn(keys, at)
  }

  findCondemned(keys: readonly string[]): Promise<string[]> {
    return this.#condemned.find(keys)
  }

  listCondemned(): Promise<{ key: string; at: number }[]> {
    return this.#condemned.list()
  }

  acquit(keys: readonly string[]): Promise<void> {
    return this.#condemned.acquit(keys)
  }
}

/** Empty if the row names no snapshot or no node. */
function pausedOf(row: PausedRow): PausedSandbox[] {
  if (row.saved === null || row.node_id === null) return []
  const { name } = JSON.parse(row.saved) as SandboxSnapshot
  return [
    {
      sandboxID: row.id,
      runID: row.run_id,
      version: row.version,
      snapshotName: name,
      nodeID: row.node_id,
      stored: storedIn(row),
    },
  ]
}

type BuildRow = Pick<TemplateBuildRow, 'id' | 'layers' | 'saved_name' | 'doubted_at'>

async function storable(builds: { execute(): Promise<BuildRow[]> }): Promise<StorableBuild[]> {
  return (await builds.execute()).map(({ id, layers, saved_name, doubted_at }) => ({
    buildID: id,
    layers: JSON.parse(layers!),
    snapshotName: saved_name,
    ...(doubted_at !== null && { isDoubted: true }),
  }))
}
