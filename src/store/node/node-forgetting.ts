/**
 * Ends everything of a forgotten node that only its disk had. Sandboxes that were being resumed, or whose memory was still
 * arriving, go back to the snapshot in the object store: the operator says that the machine is gone, so they do not run any more.
 */

import type { Kysely, Transaction } from 'kysely'
import type { ForgottenNode } from '../../core/cluster/node-store.ts'
import { eventOfTransition } from '../../core/event/event.ts'
import type { SandboxSnapshot } from '../../core/sandbox/row/sandbox.ts'
import { newSnapshotName } from '../../core/sandbox/snapshots/snapshot-names.ts'
import type { SecretVault } from '../../core/secret/vault.ts'
import { newUUID } from '../../lib/ids.ts'
import { databaseNow } from '../database/database-clock.ts'
import type { SandboxRow, Tables } from '../database/tables.ts'
import { disownCondemned } from '../objects/condemned.ts'
import { allKeepArriving } from '../sandbox/arrival-support.ts'
import { hasNoVolume, isMovable } from '../sandbox/sandbox-queries.ts'
import { changedColumns, sandboxOf } from '../sandbox/sandbox-row.ts'
import { nextVersion, type RowUpdate, updateWithEvents } from '../sandbox/sandbox-update.ts'
import { isUnended } from '../usage/sandbox-counts.ts'
import { loseVolumes } from '../volume/lost-volumes.ts'

const withNode = 'The node of this build was forgotten. Build the template again.'

export function forgetNode(
  db: Kysely<Tables>,
  vault: SecretVault,
  { nodeID, at, silentForMs }: { nodeID: string; at: number; silentForMs: number },
): Promise<ForgottenNode | undefined> {
  return db.transaction().execute(async (transaction) => {
    const gone = await transaction
      .deleteFrom('nodes')
      .where('id', '=', nodeID)
      .where((where) => where(where('seen_at', '+', silentForMs), '<', databaseNow(db)))
      .returning('id')
      .executeTakeFirst()
    if (!gone) return undefined
    await disownCondemned(transaction, nodeID)
    await renewVersions(transaction, nodeID)
    return {
      sandboxes: await loseSandboxes(transaction, vault, nodeID, at),
      builds: await failBuilds(transaction, nodeID, at),
      volumes: await loseVolumes(transaction, nodeID, at),
    }
  })
}

/** The insert of such a sandbox was on its way when its node went down, and took effect after the node was forgotten. */
export function endLateCreates(db: Kysely<Tables>, vault: SecretVault, at: number): Promise<number> {
  return db.transaction().execute(async (transaction) => {
    const late = await transaction
      .selectFrom('sandboxes')
      .select(['id', 'node_id', 'state', 'end_reason'])
      .where('state', '=', 'creating')
      .where('node_id', 'not in', transaction.selectFrom('nodes').select('id'))
      .orderBy('id')
      .execute()
    let ended = 0
    for (const row of late) if (await endWithNode(transaction, vault, row, at)) ended++
    return ended
  })
}

/** A statement that the node sent before it went down, and that takes effect from now on, finds no row that it may change. */
async function renewVersions(transaction: Transaction<Tables>, nodeID: string): Promise<void> {
  await transaction
    .updateTable('sandboxes')
    .set(nextVersion)
    .where('node_id', '=', nodeID)
    .where('state', '=', 'paused')
    .execute()
}

async function loseSandboxes(
  transaction: Transaction<Tables>,
  vault: SecretVault,
  nodeID: string,
  at: number,
): Promise<number> {
  const rows = await transaction
    .selectFrom('sandboxes')
    .select(['id', 'run_id', 'node_id', 'state', 'saved', 'end_reason'])
    .select((select) => hasNoVolume(select).as('has_no_volume'))
    .where('node_id', '=', nodeID)
    .where(isUnended)
    // Any node can take over a stored sandbox.
    .where((where) => where.not(isMovable(where)))
    .orderBy('id')
    .execute()
  // An older node may have removed the object of a resume that it does not know to need it.
  const allKeep = await allKeepArriving(transaction)
  let lost = 0
  for (const row of rows) {
    const { state } = row
    const back = row.has_no_volume ? backToStored(row, allKeep, nodeID, at) : undefined
    if (back) {
      await updateWithEvents(transaction, back, (updated) => sandboxOf(updated, vault))
      continue
    }
    const isEnded = await endWithNode(transaction, vault, row, at)
    if (isEnded && state !== 'killing' && state !== 'creating') lost++
  }
  return lost
}

/** False if the row has changed meanwhile. */
async function endWithNode(
  transaction: Transaction<Tables>,
  vault: SecretVault,
  row: Pick<SandboxRow, 'id' | 'node_id' | 'state' | 'end_reason'>,
  at: number,
): Promise<boolean> {
  const { id: sandboxID, node_id: nodeID, state } = row
  const type = eventOfTransition(state, 'killing')
  // Its team never saw it, and may create it again with the same key.
  const isNew = state === 'creating'
  const endReason = isNew ? 'create_failed' : state === 'killing' ? (row.end_reason ?? 'killed') : 'lost'
  const update = {
    // The node may still run, and may have stored the sandbox since this listed it.
    fence: { sandboxID, nodeID: nodeID!, from: [state], isUnmovable: true } as const,
    columns: { state: 'ended', ended_at: at, end_reason: endReason, run_until: null } as const,
    named: { transitionID: newUUID(), at },
    news: type && { type },
  }
  const isEnded = await updateWithEvents(transaction, update, (updated) => sandboxOf(updated, vault))
  if (isEnded && isNew)
    await transaction.deleteFrom('idempotency_claims').where('sandbox_id', '=', sandboxID).execute()
  return isEnded !== undefined
}

/** The row as it was before the resume. Undefined if the object store lacks the snapshot, or if the sandbox is being killed. */
function backToStored(
  { id: sandboxID, run_id: runID, state, saved }: Pick<SandboxRow, 'id' | 'run_id' | 'state' | 'saved'>,
  allKeep: boolean,
  nodeID: string,
  at: number,
): RowUpdate | undefined {
  if (saved === null || state === 'killing') return undefined
  const { arrivesFrom, storedFrom, ...before } = JSON.parse(saved) as SandboxSnapshot
  const stored = arrivesFrom ?? (allKeep && state === 'resuming' ? storedFrom : undefined)
  if (!stored) return undefined
  // What the resume has left of a copy on the disk of the node, if it comes back, is not used any more.
  const snapshot = arrivesFrom ? before : { ...before, name: newSnapshotName({ sandboxID }) }
  const type = eventOfTransition(state, 'paused')
  return {
    // The node may still run, and may have recorded since that all memory has arrived.
    fence: { sandboxID, nodeID, runID, from: [state], saved },
    columns: {
      ...changedColumns({ runID: stored.runID, stored, snapshot, handle: null, endAt: at }),
      state: 'paused',
    },
    named: { transitionID: newUUID(), at },
    news: type && { type },
  }
}

async function failBuilds(transaction: Transaction<Tables>, nodeID: string, at: number): Promise<number> {
  const { numUpdatedRows } = await transaction
    .updateTable('template_builds')
    .set({ status: 'error', reason_message: withNode, reason_step: null, updated_at: at, finished_at: at })
    .where('node_id', '=', nodeID)
    .where('status', '<>', 'error')
    .where('stored_at', 'is', null)
    .executeTakeFirstOrThrow()
  await transaction.deleteFrom('build_cache').where('node_id', '=', nodeID).execute()
  await transaction.deleteFrom('quarantine').where('node_id', '=', nodeID).execute()
  return Number(numUpdatedRows)
}
