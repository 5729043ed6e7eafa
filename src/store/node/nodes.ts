import type { Kysely, Selectable } from 'kysely'
import {
  type ClusterNode,
  folderIDOf,
  type NodeFacts,
  type NodeStatus,
  unreachableAfterMs,
} from '../../core/cluster/node.ts'
import type { ForgottenNode, JoiningNode, NodeStore, RecordedSign } from '../../core/cluster/node-store.ts'
import type { SecretVault } from '../../core/secret/vault.ts'
import { commitsLater } from '../database/commits-later.ts'
import { databaseNow } from '../database/database-clock.ts'
import type { NodeRow, Tables } from '../database/tables.ts'
import { allKeepArriving } from '../sandbox/arrival-support.ts'
import { endLateCreates, forgetNode } from './node-forgetting.ts'

type FactsByNode = Map<string, { runID: string; facts: NodeFacts }>

/** SQLite takes 32,766 values at once. */
const idsPerRead = 1000

export class SqlNodeStore implements NodeStore {
  readonly #db: Kysely<Tables>
  readonly #vault: SecretVault
  /**
   * The facts of each process in the last list: they are most of a row, and valid as long as the process
   * lives.
   */
  #facts: FactsByNode = new Map()

  constructor(db: Kysely<Tables>, vault: SecretVault) {
    this.#db = db
    this.#vault = vault
  }

  async join({ nodeID, runID, address, facts, load }: JoiningNode): Promise<boolean> {
    const now = databaseNow(this.#db)
    const folderID = folderIDOf(runID)
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
              ...(folderID === undefined ? [] : [where('nodes.run_id', 'like', `${folderID}.%`)]),
              where(where('nodes.seen_at', '+', unreachableAfterMs), '<', now),
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
  }: Pick<JoiningNode, 'nodeID' | 'runID' | 'load'>): Promise<RecordedSign | undefined> {
    const row = await this.#db
      .updateTable('nodes')
      .set({ load: JSON.stringify(load), seen_at: databaseNow(this.#db) })
      .where('id', '=', nodeID)
      .where('run_id', '=', runID)
      .returning(['status', 'seen_at', commitsLater(this.#db).as('later')])
      .executeTakeFirst()
    return row && { status: row.status, databaseTime: row.seen_at }
  }

  async leave({ nodeID, runID }: Pick<JoiningNode, 'nodeID' | 'runID'>): Promise<void> {
    await this.#db
      .updateTable('nodes')
      // Just silent enough to count as unreachable, so that the silence is counted from now.
      .set(({ eb }) => ({ seen_at: eb(databaseNow(this.#db), '-', unreachableAfterMs + 1) }))
      .where('id', '=', nodeID)
      .where('run_id', '=', runID)
      .execute()
  }

  async find(nodeID: string): Promise<ClusterNode | undefined> {
    const row = await this.#rows().select('facts').where('id', '=', nodeID).executeTakeFirst()
    return row && nodeOf(row, JSON.parse(row.facts))
  }

  async list(): Promise<ClusterNode[]> {
    const rows = await this.#rows().orderBy('id').execute()
    const facts = await this.#factsOf(rows)
    // A node without facts was forgotten between the two reads.
    return rows.flatMap((row) => {
      const known = facts.get(row.id)
      return known ? [nodeOf(row, known.facts)] : []
    })
  }

  allKeepArriving(): Promise<boolean> {
    return allKeepArriving(this.#db)
  }

  async #factsOf(rows: readonly Pick<NodeRow, 'id' | 'run_id'>[]): Promise<FactsByNode> {
    const isKnown = ({ id, run_id }: (typeof rows)[number]) => this.#facts.get(id)?.runID === run_id
    const facts: FactsByNode = new Map()
    for (const row of rows.filter(isKnown)) facts.set(row.id, this.#facts.get(row.id)!)
    const missing = rows.filter((row) => !isKnown(row)).map(({ id }) => id)
    for (let first = 0; first < missing.length; first += idsPerRead) {
      const read = await this.#db
        .selectFrom('nodes')
        .select(['id', 'run_id', 'facts'])
        .where('id', 'in', missing.slice(first, first + idsPerRead))
        .execute()
      for (const row of read) facts.set(row.id, { runID: row.run_id, facts: JSON.parse(row.facts) })
    }
    this.#facts = facts
    return facts
  }

  async setStatus(nodeID: string, status: NodeStatus): Promise<boolean> {
    const { numUpdatedRows } = await this.#db
      .updateTable('nodes')
      .set({ status, status_changed_at: databaseNow(this.#db) })
      .where('id', '=', nodeID)
      .executeTakeFirstOrThrow()
    return numUpdatedRows > 0n
  }

  forget(nodeID: string, at: number, silentForMs: number): Promise<ForgottenNode | undefined> {
    return forgetNode(this.#db, this.#vault, {
      nodeID,
      at,
      silentForMs: Math.max(silentForMs, unreachableAfterMs),
    })
  }

  endLateCreates(at: number): Promise<number> {
    return endLateCreates(this.#db, this.#vault, at)
  }

  async share(name: string, value: string): Promise<string> {
    await this.#db
      .insertInto('shared_values')
      .values({ name, value })
      .onConflict((conflict) => conflict.doNothing())
      .execute()
    return (await this.findShared(name))!
  }

  async findShared(name: string): Promise<string | undefined> {
    const row = await this.#db
      .selectFrom('shared_values')
      .select('value')
      .where('name', '=', name)
      .executeTakeFirst()
    return row?.value
  }

  #rows() {
    return this.#db
      .selectFrom('nodes')
      .select(['id', 'run_id', 'address', 'status', 'status_changed_at', 'load', 'seen_at'])
      .select(databaseNow(this.#db).as('now'))
  }
}

function nodeOf(row: Omit<Selectable<NodeRow>, 'facts'> & { now: number }, facts: NodeFacts): ClusterNode {
  return {
    nodeID: row.id,
    runID: row.run_id,
    address: row.address,
    status: row.status,
    statusChangedAt: row.status_changed_at,
    facts,
    load: JSON.parse(row.load),
    silentMs: row.now - row.seen_at,
  }
}
