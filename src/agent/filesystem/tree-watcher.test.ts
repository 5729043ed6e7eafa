import assert from 'node:assert/strict'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { test } from 'node:test'
import { setImmediate } from 'node:timers/promises'
import { EventType } from '../../contract/rpc/filesystem-fields.ts'
import { flag, type Inotify } from './inotify.ts'
import { temporaryName } from './temporary-name.ts'
import { TreeWatcher } from './tree-watcher.ts'

test('each of many files that arrive at once in several folders is reported as created and written', async () => {
  const root = mkdtempSync(join(tmpdir(), 'warren-tree-'))
  const inotify = { add: () => 1, remove: () => {}, leave: () => {} } as unknown as Inotify
  const watcher = await TreeWatcher.open(inotify, root, true)
  const half = (mask: number, cookie: number, name: string) => ({ watch: 1, mask, cookie, name })
  const [one, other] = [temporaryName('new'), temporaryName('new')]
  watcher.accept([
    half(flag.movedFrom, 1, one),
    half(flag.movedFrom, 2, other),
    half(flag.movedTo, 1, 'one'),
    half(flag.movedTo, 2, 'other'),
  ])
  // Nothing of it asks the disk.
  await setImmediate()
  const changes = watcher.changes.drain()
  watcher.close()
  rmSync(root, { recursive: true })
  const types = [EventType.CREATE, EventType.CHMOD, EventType.WRITE]
  assert.deepEqual(
    changes,
    ['one', 'other'].flatMap((name) => types.map((type) => ({ name, type }))),
  )
})
