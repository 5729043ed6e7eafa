import { lchownSync, mkdirSync, statSync } from 'node:fs'
import { dirname } from 'node:path'
import type { Account } from '../accounts.ts'
import { systemErrorCode } from '../errors.ts'

/**
 * Creates a folder and the missing ones above it, 0755 and owned by the user; existing ones stay unchanged.
 */
export function makeFolders(path: string, account: Account): void {
  const missing: string[] = []
  for (let folder = path; !exists(folder); folder = dirname(folder)) missing.push(folder)
  for (const folder of missing.reverse()) {
    try {
      mkdirSync(folder, 0o755)
    } catch (error) {
      if (systemErrorCode(error) === 'EEXIST') continue
      throw error
    }
    // Somebody may have put a link in its place by now.
    lchownSync(folder, account.uid, account.gid)
  }
}

function exists(path: string): boolean {
  return statSync(path, { throwIfNoEntry: false }) !== undefined
}
