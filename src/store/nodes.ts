import type { Kysely, Selectable } from 'kysely'
import {
  awayAfterMs,
  type ClusterNode,
  type ForgottenNode,
  type JoiningNode,
  type NodeStatus,
  type NodeStore,
} from '../core/cluster/node.ts'
import type { SecretVault } from '../core/secret/vault.ts'
import { databaseNow } from './database-clock.ts'
import { forgetNode } from './node-forgetting.ts'
import type { NodeRow, Tables } from './tables.ts'

export class SqlNodeStore implements NodeStore {
  readonly #db: Kysely<Tables>
  readonly #vault: SecretVault

  constructor(db: Kysely<Tables>, vault: SecretVault) {
    this.#db = db
    this.#vault = vault
  }

  async join({ nodeID, runID, address, facts, load }: JoiningNode): Promise<boolean> {
    const now = databaseNow(this.#db)
    const fresh = {
      run_id: runID,
      address,
      facts: JSON.stringify(facts),
      load: JSON.stringify(load),
      seen_at: now,
    }
    const joined = await this.#db
      .insertInto('nodes')
      .values({ id: nodeID, status: 'ready', status_changed_at: now, ...fresh })
      .onConflict((conflict) =>
        conflict
          .column('id')
          .doUpdateSet(fresh)
          .where((where) =>
            where.or([
              where('nodes.run_id', '=', runID),
              where(where('nodes.seen_at', '+', awayAfterMs), '<', now),
            ]),
          ),
      )
      .returning('id')
      .executeTakeFirst()
    return joined !== undefined
  }

  async renew({
    nodeID,
    runID,
    load,
  }: Pick<JoiningNode, 'nodeID' | 'runID' | 'load'>): Promise<NodeStatus | undefined> {
    const row = await this.#db
      .updateTable('nodes')
      .set({ load: JSON.stringify(load), seen_at: databaseNow(this.#db) })
      .where('id', '=', nodeID)
      .where('run_id', '=', runID)
      .returning('status')
      .executeTakeFirst()
    return row?.status
  }

  async leave({ nodeID, runID }: Pick<JoiningNode, 'nodeID' | 'runID'>): Promise<void> {
    await this.#db
      .updateTable('nodes')
      .set({ seen_at: 0 })
      .where('id', '=', nodeID)
      .where('run_id', '=', runID)
      .execute()
  }

  async find(nodeID: string): Promise<ClusterNode | undefined> {
    const row = await this.#rows().where('id', '=', nodeID).executeTakeFirst()
    return row && nodeOf(row)
  }

  async list(): Promise<ClusterNode[]> {
    return (await this.#rows().orderBy('id').execute()).map(nodeOf)
  }

  async setStatus(nodeID: string, status: NodeStatus): Promise<boolean> {
    const { numUpdatedRows } = await this.#db
      .updateTable('nodes')
      .set({ status, status_changed_at: databaseNow(this.#db) })
      .where('id', '=', nodeID)
      .executeTakeFirstOrThrow()
    return numUpdatedRows > 0n
  }

  forget(nodeID: string, at: number): Promise<ForgottenNode | undefined> {
    return forgetNode(this.#db, this.#vault, nodeID, at)
  }

  async share(name: string, value: string): Promise<string> {
    await this.#db
      .insertInto('shared_values')
      .values({ name, value })
      .onConflict((conflict) => conflict.doNothing())
      .execute()
    const row = await this.#db
      .selectFrom('shared_values')
      .select('value')
      .where('name', '=', name)
      .executeTakeFirstOrThrow()
    return row.value
  }

  #rows() {
    return this.#db.selectFrom('nodes').selectAll().select(databaseNow(this.#db).as('now'))
  }
}

function nodeOf(row: Selectable<NodeRow> & { now: number }): ClusterNode {
  return {
    nodeID: row.id,
    runID: row.run_id,
    address: row.address,
    status: row.status,
    statusChangedAt: row.status_changed_at,
    facts: JSON.parse(row.facts),
    load: JSON.parse(row.load),
    silentMs: row.now - row.seen_at,
  }
}
