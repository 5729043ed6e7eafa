/**
 * An empty database of SQLite with its tables. It is made once in a process and copied for each test: to make the tables
 * by their migrations takes ten times as long.
 */
import { copyFileSync, existsSync, mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { openStores } from '../../src/store/open-stores.ts'
import { vault } from '../../src/store/suite/rows.ts'

const fileName = 'warren.db'
let made: Promise<string> | undefined

/** Into a folder that has no database yet; one that is there stays as it is. */
export async function copyEmptyDatabase(dataFolder: string): Promise<void> {
  made ??= makeOnce()
  const [from, to] = [await made, join(dataFolder, fileName)]
  if (!existsSync(to)) copyFileSync(from, to)
}

async function makeOnce(): Promise<string> {
  const folder = mkdtempSync(join(tmpdir(), 'warren-empty-'))
  process.once('exit', () => rmSync(folder, { recursive: true, force: true }))
  const stores = await openStores({ url: undefined, dataFolder: folder, vault, syncLog: async () => {} })
  await stores.close()
  return join(folder, fileName)
}
