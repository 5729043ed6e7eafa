/** What becomes of a sandbox that the database knows nothing of, as after a backup of it was restored. */
import assert from 'node:assert/strict'
import { copyFileSync, existsSync, mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, before, describe, it } from 'node:test'
import { Sandbox } from 'e2b'
import { createMarked, markInFile, markInMemory } from '../support/marked-sandbox.ts'
import { noWarmPool, startWarren, type Warren } from '../support/warren.ts'

const settings = noWarmPool
const databaseFiles = ['warren.db', 'warren.db-wal', 'warren.db-shm']

/** After this the folder has those of the three files that the other one has. */
function copyDatabase(from: string, to: string): void {
  for (const name of databaseFiles) {
    rmSync(join(to, name), { force: true })
    if (existsSync(join(from, name))) copyFileSync(join(from, name), join(to, name))
  }
}

describe('a paused sandbox whose database is older than its pause', () => {
  const backup = mkdtempSync(join(tmpdir(), 'warren-backup-'))
  let warren: Warren
  before(async () => {
    warren = await startWarren('gvisor', { settings })
  })
  after(async () => {
    await warren?.stop()
    rmSync(backup, { recursive: true, force: true })
  })

  it('stays in quarantine for days, and is given back with its memory and files', async () => {
    const marked = await createMarked(warren, 'kept')
    await warren.stop()
    copyDatabase(warren.dataFolder, backup)
    warren = await startWarren('gvisor', { keepData: true, settings })
    await Sandbox.pause(marked.sandboxID, warren.client)
    await warren.crash()
    copyDatabase(backup, warren.dataFolder)
    warren = await startWarren('gvisor', { keepData: true, settings })

    const asOperator = { headers: { 'X-Admin-Token': warren.adminToken }, key: null }
    const listed = await (await warren.api('/admin/quarantine', asOperator)).json()
    const [entry] = listed as { snapshotName: string; sandboxID: string; deletedAt: string }[]
    assert.equal(entry?.sandboxID, marked.sandboxID)
    const days = (Date.parse(entry.deletedAt) - Date.now()) / (24 * 3_600_000)
    assert.ok(days > 1, `it stays for ${days} days`)
    const path = `/admin/quarantine/${entry.snapshotName}/recover`
    assert.equal((await warren.api(path, { ...asOperator, method: 'POST' })).status, 200)
    assert.equal(await markInFile(warren, marked), marked.mark)
    assert.equal(await markInMemory(warren, marked), marked.mark)
    await Sandbox.kill(marked.sandboxID, warren.client)
  })
})
