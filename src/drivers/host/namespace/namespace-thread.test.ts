import assert from 'node:assert/strict'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { test } from 'node:test'
import { NamespaceThread } from './namespace-thread.ts'

test('a thread that is closed while it starts finishes its queued work first', async () => {
  const nowhere = join(tmpdir(), 'warren-namespace-of-nobody')
  const thread = new NamespaceThread()
  const failed = assert.rejects(
    thread.do({ cover: { mountNamespace: nowhere, userNamespace: nowhere, folders: [] } }),
    { code: 'ENOENT' },
  )
  await thread.close()
  await failed
})
