import assert from 'node:assert/strict'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, suite, test } from 'node:test'
import { isAppError } from '../../lib/app-error.ts'
import { Watchers } from './watchers.ts'

const folder = mkdtempSync(join(tmpdir(), 'warren-mounts-'))
after(() => rmSync(folder, { recursive: true, force: true }))
const request = { path: folder, recursive: false, includeEntry: false, allowNetworkMounts: false }
const asked = { $typeName: 'filesystem.CreateWatcherRequest' as const, ...request }
/** Far enough to see that the folder was not rejected: there is no addon at this path. */
const watchersOn = (type: number) => new Watchers('/nowhere.node', () => type)

suite('a folder on a network file system', () => {
  const types = { nfs: 0x6969, cifs: 0xff534d42, smb2: 0xfe534d42, fuse: 0x65735546 }
  for (const [name, type] of Object.entries(types)) {
    test(`is not watched (${name})`, async () => {
      await assert.rejects(watchersOn(type).create(folder, asked), {
        code: 'invalid_argument',
        message: `cannot watch path on network filesystem: ${folder}`,
      })
    })
  }

  test('is watched like any other if the client allows it', async () => {
    const allowed = { ...asked, allowNetworkMounts: true }
    const reached = (error: unknown) => isAppError(error, 'unavailable')
    await assert.rejects(watchersOn(types.nfs).create(folder, allowed), reached)
    await assert.rejects(watchersOn(0xef53).create(folder, asked), reached)
  })
})
