import assert from 'node:assert/strict'
import { readdirSync, readlinkSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { it } from 'node:test'
import { createLayout, instanceOf } from './layout.ts'
import { NamespaceThread } from './namespace/namespace-thread.ts'
import { OwnUsers } from './own-users.ts'

const folder = join(tmpdir(), 'warren-users-of-nobody')

function heldNamespaces(): string[] {
  return readdirSync('/proc/self/fd').flatMap((fd) => {
    try {
      return readlinkSync(`/proc/self/fd/${fd}`).match(/^user:.*/) ?? []
    } catch {
      // The descriptor of the listing itself is closed by now.
      return []
    }
  })
}

it('users of a slot hold two namespaces until they are closed, and none where its network cannot be made', async () => {
  const users = new OwnUsers(createLayout(folder, instanceOf(folder)), 100_000, new NamespaceThread())
  const made = await users.make(1, async () => {})
  assert.equal(heldNamespaces().length, 2)
  await made.close()
  assert.deepEqual(heldNamespaces(), [])
  const failed = users.make(1, () => Promise.reject(new Error('no network')))
  await assert.rejects(failed, /no network/)
  assert.deepEqual(heldNamespaces(), [])
})
