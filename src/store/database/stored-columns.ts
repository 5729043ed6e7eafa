/** The columns in which the row of a sandbox or a build says what the object store has. */
import type { StoredBytes } from '../../core/object-storage/stored-bytes-store.ts'
import type { SandboxRow } from './tables.ts'

export const storedColumnNames = ['stored_at', 'stored_needs', 'stored_index'] as const

export type StoredColumns = Pick<SandboxRow, (typeof storedColumnNames)[number]>

export const nothingStored = { stored_at: null, stored_needs: null, stored_index: null } as const

export const storedColumns = ({ at, needs, index }: StoredBytes): StoredColumns => ({
  stored_at: at,
  stored_needs: needs && JSON.stringify(needs),
  stored_index: index ?? null,
})

export function storedIn({ stored_at, stored_needs, stored_index }: StoredColumns): StoredBytes | null {
  if (stored_at === null) return null
  const needs = stored_needs === null ? null : JSON.parse(stored_needs)
  return { at: stored_at, needs, ...(stored_index !== null && { index: stored_index }) }
}
