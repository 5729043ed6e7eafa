/** The columns in which the row of a sandbox or a build says what the object store has. */
import type { RemoteBytes } from '../../core/object-storage/remote-bytes-store.ts'
import type { SandboxRow } from './tables.ts'

export const remoteColumnNames = ['stored_at', 'stored_needs', 'stored_index'] as const

export type RemoteColumns = Pick<SandboxRow, (typeof remoteColumnNames)[number]>

export const nothingStored = { stored_at: null, stored_needs: null, stored_index: null } as const

export const remoteColumns = ({ at, needs, index }: RemoteBytes): RemoteColumns => ({
  stored_at: at,
  stored_needs: needs && JSON.stringify(needs),
  stored_index: index ?? null,
})

export function storedIn({ stored_at, stored_needs, stored_index }: RemoteColumns): RemoteBytes | null {
  if (stored_at === null) return null
  const needs = stored_needs === null ? null : JSON.parse(stored_needs)
  return { at: stored_at, needs, ...(stored_index !== null && { index: stored_index }) }
}
