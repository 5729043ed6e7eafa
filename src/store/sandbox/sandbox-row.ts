import { createHash } from 'node:crypto'
import type { Updateable } from 'kysely'
import type { NewSandbox, Sandbox, SandboxSnapshot } from '../../core/sandbox/row/sandbox.ts'
import type { SandboxChanges } from '../../core/sandbox/row/sandbox-store.ts'
import type { SecretVault } from '../../core/secret/vault.ts'
import { nothingStored, type RemoteColumns, remoteColumns, storedIn } from '../database/remote-columns.ts'
import type { SandboxRow } from '../database/tables.ts'
import { optionColumns, optionsOf } from './sandbox-options.ts'

export function newSandboxRow(sandbox: NewSandbox, nodeID: string, vault: SecretVault): SandboxRow {
  return {
    node_id: nodeID,
    id: sandbox.sandboxID,
    team_id: sandbox.teamID,
    template_id: sandbox.templateID,
    build_id: sandbox.buildID,
    alias: sandbox.alias,
    state: 'creating',
    run_id: sandbox.runID,
    move_id: null,
    event_count: 0,
    handle: null,
    cpu_count: sandbox.cpuCount,
    memory_mb: sandbox.memoryMB,
    disk_mb: sandbox.diskMB,
    gpu_count: sandbox.gpuCount ?? 0,
    owner_person_id: sandbox.ownerPersonID ?? null,
    envd_version: sandbox.envdVersion,
    metadata: JSON.stringify(sandbox.metadata),
    env_vars: JSON.stringify(sandbox.envVars),
    ...optionColumns(sandbox, sandbox.options, vault),
    auto_pause: sandbox.options.autoPause ? 1 : 0,
    saved: null,
    is_frozen: 0,
    ...nothingStored,
    timeout_ms: sandbox.timeoutMs,
    created_at: sandbox.createdAt,
    started_at: sandbox.startedAt,
    end_at: sandbox.endAt,
    ended_at: null,
    end_reason: null,
    run_until: null,
    version: 0,
  }
}

export function sandboxOf(row: SandboxRow, vault: SecretVault): Sandbox {
  return {
    sandboxID: row.id,
    teamID: row.team_id,
    templateID: row.template_id,
    buildID: row.build_id,
    alias: row.alias,
    state: row.state,
    runID: row.run_id,
    transitionID: row.move_id,
    handle: row.handle === null ? null : JSON.parse(row.handle),
    cpuCount: row.cpu_count,
    memoryMB: row.memory_mb,
    diskMB: row.disk_mb,
    ...(row.gpu_count > 0 && { gpuCount: row.gpu_count }),
    ...(row.owner_person_id !== null && { ownerPersonID: row.owner_person_id }),
    envdVersion: row.envd_version,
    metadata: JSON.parse(row.metadata),
    envVars: JSON.parse(row.env_vars),
    options: optionsOf(row, vault),
    snapshot: row.saved === null ? null : (JSON.parse(row.saved) as SandboxSnapshot),
    timeoutMs: row.timeout_ms,
    createdAt: row.created_at,
    startedAt: row.started_at,
    endAt: row.end_at,
    endedAt: row.ended_at,
    endReason: row.end_reason,
    runUntil: row.run_until,
    version: row.version,
  }
}

/** The columns of a row whose stored snapshot is from now on that of an earlier run. */
export function withRemoteRun(
  runID: string,
  { saved, ...columns }: Pick<SandboxRow, 'saved'> & RemoteColumns,
): Updateable<SandboxRow> {
  const stored = storedIn(columns)
  if (saved === null || !stored) return nothingStored
  const snapshot: SandboxSnapshot = { ...JSON.parse(saved), storedFrom: { runID, ...stored } }
  return { ...nothingStored, saved: JSON.stringify(snapshot) }
}

/** Only the columns of the given changes. */
export function changedColumns(changes: SandboxChanges): Updateable<SandboxRow> {
  const { snapshot } = changes
  const columns = {
    run_id: changes.runID,
    handle: changes.handle && JSON.stringify(changes.handle),
    saved: snapshot && JSON.stringify(snapshot),
    is_frozen: snapshot === undefined ? undefined : snapshot?.frozen ? 1 : 0,
    started_at: changes.startedAt,
    end_at: changes.endAt,
    ended_at: changes.endedAt,
    end_reason: changes.endReason,
    run_until: changes.runUntil,
    ...(changes.stored && remoteColumns(changes.stored)),
  }
  return Object.fromEntries(Object.entries(columns).filter(([, value]) => value !== undefined))
}

/** One hash per pair, equal if and only if key and value are equal. */
export function pairHashes(metadata: Record<string, string>): string[] {
  return Object.entries(metadata).map((pair) => hashOf(JSON.stringify(pair)))
}

export const hashOf = (text: string): string => createHash('sha256').update(text).digest('hex')
