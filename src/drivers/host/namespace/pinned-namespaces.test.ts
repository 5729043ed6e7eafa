import assert from 'node:assert/strict'
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import {
  closeSync,
  existsSync,
  openSync,
  readdirSync,
  readFileSync,
  readlinkSync,
  writeFileSync,
} from 'node:fs'
import { describe, it } from 'node:test'
import { eventually } from '../../../../test/support/eventually.ts'
import { openNativeLibc } from '../../../lib/native.ts'
import { pinNamespaces, pinnedKinds } from './pinned-namespaces.ts'

const owner = 200_000_000
const both = pinnedKinds.user | pinnedKinds.network
/** NS_GET_OWNER_UID and PR_GET_DUMPABLE. */
const askOwner = 0xb704
const askDumpable = 3
const libc = openNativeLibc('This cannot be tested')
const prctl = libc.func('int prctl(int option, unsigned long value)')
const ioctl = libc.func('int ioctl(int file, unsigned long request, void *value)')

function makerOf(pid: number): number {
  const file = openSync(`/proc/${pid}/ns/user`, 'r')
  const uid = Buffer.alloc(4)
  assert.equal(ioctl(file, askOwner, uid), 0)
  closeSync(file)
  return uid.readUInt32LE()
}

function isPinnedAsOurs(pid: number): Record<string, boolean> {
  const link = (of: number | 'self', kind: string) => readlinkSync(`/proc/${of}/ns/${kind}`)
  return Object.fromEntries(
    ['user', 'net', 'mnt', 'pid'].map((kind) => [kind, link(pid, kind) === link('self', kind)]),
  )
}

const statusOf = (pid: number, name: string) =>
  new RegExp(`^${name}:\t(.*)$`, 'm').exec(readFileSync(`/proc/${pid}/status`, 'utf8'))![1]!.trim()
const openFiles = () => readdirSync('/proc/self/fd').length
const children = () => readFileSync('/proc/thread-self/children', 'utf8')

describe('a process that holds namespaces', () => {
  it('runs as the given user alone, in namespaces of that user, with one descriptor', () => {
    const pinned = pinNamespaces(both, owner)
    try {
      assert.equal(makerOf(pinned.pid), owner)
      assert.deepEqual(isPinnedAsOurs(pinned.pid), { user: false, net: false, mnt: true, pid: true })
      assert.deepEqual(readdirSync(`/proc/${pinned.pid}/fd`), ['0'])
      for (const map of ['uid_map', 'gid_map'])
        writeFileSync(`/proc/${pinned.pid}/${map}`, `0 ${owner} 1000\n`)
      const four = Array(4).fill(owner).join('\t')
      assert.deepEqual(
        ['Uid', 'Gid', 'Groups'].map((name) => statusOf(pinned.pid, name)),
        [four, four, ''],
      )
      // Another process of that user on the host must not be able to trace it, because it has our memory.
      assert.notEqual(prctl(askDumpable, 0), 1)
    } finally {
      pinned.end()
    }
    assert.equal(prctl(askDumpable, 0), 1)
  })

  it('stays root if root is to own the namespaces', () => {
    const pinned = pinNamespaces(pinnedKinds.user, 0)
    try {
      assert.equal(makerOf(pinned.pid), 0)
      assert.deepEqual(isPinnedAsOurs(pinned.pid), { user: false, net: true, mnt: true, pid: true })
    } finally {
      pinned.end()
    }
  })

  it('leaves nothing behind when it is killed or cannot make the namespaces', () => {
    const before = openFiles()
    const { pid, end } = pinNamespaces(both, owner)
    end()
    assert.equal(existsSync(`/proc/${pid}`), false)
    assert.throws(() => pinNamespaces(pinnedKinds.user | 1, owner), { code: 'EINVAL', syscall: 'unshare' })
    assert.equal(children(), '')
    assert.equal(openFiles(), before)
    assert.equal(prctl(askDumpable, 0), 1)
  })

  it('ends with the process that made it', async () => {
    const script = `import { pinNamespaces } from '${import.meta.dirname}/pinned-namespaces.ts'
      console.log(pinNamespaces(${both}, ${owner}).pid)
      setInterval(() => {}, 1000)`
    const maker = spawn(process.execPath, ['--input-type=module', '--eval', script], {
      stdio: ['ignore', 'pipe', 'inherit'],
    })
    const pid = Number((await once(maker.stdout, 'data'))[0])
    assert.ok(existsSync(`/proc/${pid}`))
    maker.kill('SIGKILL')
    await eventually(() => assert.ok(!existsSync(`/proc/${pid}`)))
  })
})
