/** The log of a sandbox as the API tells it. */
import assert from 'node:assert/strict'
import type { Warren } from './warren.ts'

export type LoggedEntry = {
  timestamp: string
  level: string
  message: string
  fields: Record<string, string>
}

export async function readLog(
  warren: Warren,
  sandboxID: string,
  query = 'direction=forward',
): Promise<LoggedEntry[]> {
  const response = await warren.api(`/v2/sandboxes/${sandboxID}/logs?${query}`)
  assert.equal(response.status, 200)
  return ((await response.json()) as { logs: LoggedEntry[] }).logs
}

export const messages = (entries: LoggedEntry[]) => entries.map(({ message }) => message)
