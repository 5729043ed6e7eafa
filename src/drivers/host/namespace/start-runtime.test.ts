import assert from 'node:assert/strict'
import { mkdtempSync, readFileSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, describe, it } from 'node:test'
import { eventually } from '../../../../test/support/eventually.ts'
import { awaitChild, killChild } from '../../../lib/await-child.ts'
import { NamespaceThread } from './namespace-thread.ts'

const folder = mkdtempSync(join(tmpdir(), 'warren-runtime-'))
const said = join(folder, 'said')
const namespaces = new NamespaceThread()
after(async () => {
  await namespaces.close()
  rmSync(folder, { recursive: true })
})

async function start(script: string, change: object = {}): Promise<number> {
  // A timer keeps the event loop alive while a test waits for a process only.
  const awake = setInterval(() => {}, 1000)
  try {
    return await namespaces.start({
      namespace: '/proc/self/ns/mnt',
      command: ['/bin/sh', '-c', script, 'sh', said, 'two words', ''],
      variables: ['NAME=a=b'],
      limits: [
        { type: 'RLIMIT_NOFILE', soft: 100, hard: 200 },
        { type: 'RLIMIT_CORE', soft: 1, hard: 1 },
      ],
      oomScore: 500,
      ...change,
    })
  } finally {
    clearInterval(awake)
  }
}

describe('a runtime that a list of calls starts', () => {
  it('gets its arguments, variables, limits and OOM score, and none of our streams and signal handlers', async () => {
    const script = `{ echo "$2|$3|$#|$NAME|$(pwd)"; ulimit -Sn; ulimit -Hn; cat /proc/self/oom_score_adj
      readlink /proc/self/fd/0 /proc/self/fd/2; grep -Ec 'Sig(Ign|Blk):.0{16}' /proc/self/status; } > "$1"; exit 3`
    const pid = await start(script)
    assert.equal(await awaitChild(pid), 3)
    assert.deepEqual(readFileSync(said, 'utf8').trim().split('\n'), [
      ...['two words||3|a=b|/', '100', '200', '500', '/dev/null', '/dev/null', '2'],
    ])
  })

  it('that does not exist causes an error with the name of the call', async () => {
    await assert.rejects(start('', { command: ['/nowhere/runtime'] }), { code: 'ENOENT' })
  })

  it('does not start if its limits cannot be set', async () => {
    const limits = [{ type: 'RLIMIT_NOFILE', soft: 10, hard: 5 }]
    await assert.rejects(start('', { limits }), { code: 'EINVAL' })
  })
})

describe('the end of a child', () => {
  it('is reported even if it came before anybody waited', async () => {
    const pid = await start('exit 4')
    await eventually(() => assert.match(readFileSync(`/proc/${pid}/stat`, 'utf8'), /\) Z /))
    assert.equal(await awaitChild(pid), 4)
  })

  it('by a kill has no exit code, and a later kill reaches nobody', async () => {
    const pid = await start('exec sleep 60')
    const ended = awaitChild(pid)
    killChild(pid)
    assert.equal(await ended, null)
    killChild(pid)
  })
})
