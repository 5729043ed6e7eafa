import assert from 'node:assert/strict'
import { linkSync, mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import test from 'node:test'
import { snapshotFolders } from './snapshot-folders.ts'

test('shared files count only when the last snapshot that shares them is removed', async (t) => {
  const folder = mkdtempSync(join(tmpdir(), 'warren-saved-'))
  t.after(() => rmSync(folder, { recursive: true }))
  const folders = snapshotFolders(folder)
  for (const name of ['one', 'two', 'three']) mkdirSync(join(folder, name, 'memory'), { recursive: true })
  writeFileSync(join(folder, 'one', 'disk'), Buffer.alloc(8192))
  linkSync(join(folder, 'one', 'disk'), join(folder, 'two', 'layer'))
  writeFileSync(join(folder, 'three', 'memory', 'pages'), Buffer.alloc(4096))
  assert.equal(await folders.bytesOf(['one']), 0)
  assert.equal(await folders.bytesOf(['two', 'one', 'gone']), 8192)
  assert.equal(await folders.bytesOf(['three']), 4096)
})
