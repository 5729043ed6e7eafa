import assert from 'node:assert/strict'
import { mkdtemp, readdir, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { test } from 'node:test'
import { openDashboard } from './dashboard-bundle.ts'

const maxFirstBytes = 300 * 1024

test('the dashboard is bundled once, and its first view is small', async () => {
  const folder = await mkdtemp(join(tmpdir(), 'warren-dashboard-'))
  try {
    const made = await openDashboard(folder)
    const { script, style, icon, preloads } = made.entry
    const first = [script, style, icon, ...preloads]
    const bytes = first.reduce((sum, name) => sum + made.files.get(name)!.gzip.length, 0)
    assert.ok(bytes < maxFirstBytes, `the first view has ${bytes} bytes`)
    // The terminal, the charts and the client come when they are needed.
    assert.ok([...made.files.keys()].length > first.length + 2)
    const [cached, ...more] = await readdir(folder)
    assert.deepEqual([cached?.length, more], [32, []])
    assert.deepEqual(await openDashboard(folder), made)
  } finally {
    await rm(folder, { recursive: true })
  }
})
