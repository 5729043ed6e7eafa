import assert from 'node:assert/strict'
import { readdirSync, readlinkSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, it } from 'node:test'
import { NamespaceThread } from '../namespace/namespace-thread.ts'
import { createLayout, instanceOf } from '../record/layout.ts'
import { OwnUsers } from './own-users.ts'

const folder = join(tmpdir(), 'warren-users-of-nobody')
const namespaces = new NamespaceThread()
after(() => namespaces.close())

function pinnedNamespaces(): string[] {
  return readdirSync('/proc/self/fd').flatMap((fd) => {
    try {
      return readlinkSync(`/proc/self/fd/${fd}`).match(/^user:.*/) ?? []
    } catch {
      // This descriptor belonged to the directory listing, which is closed now.
      return []
    }
  })
}

it('the users of a slot hold two namespaces until they are closed, and none if its network cannot be made', async () => {
  const users = new OwnUsers(createLayout(folder, instanceOf(folder)), 100_000, namespaces)
  const made = await users.make(1, undefined)
  assert.equal(pinnedNamespaces().length, 2)
  await made.close()
  assert.deepEqual(pinnedNamespaces(), [])
  const nowhere = { path: '/dev/null/network', link: 'none', gateway: '10.0.0.1', address: '10.0.0.2' }
  await assert.rejects(users.make(1, nowhere), { code: 'EEXIST' })
  assert.deepEqual(pinnedNamespaces(), [])
})
