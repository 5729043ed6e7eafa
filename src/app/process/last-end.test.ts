import assert from 'node:assert/strict'
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { it } from 'node:test'
import { systemClock } from '../../lib/clock.ts'
import { silentLog } from '../../lib/log.ts'
import { openDataFolder, removeServerFile, saveServerFile } from '../data/data-folder.ts'
import { explainLastEnd, reportLastEnd } from './last-end.ts'

const bootedAt = 1_000_000
const server = { pid: 4321, startedAt: bootedAt + 60_000 }

it("the log says that the kernel killed the previous Warren, with the kernel's message", () => {
  const kernelLog = [
    '<4>[   10.000000] Out of memory: Killed process 4321 (earlier) total-vm:1kB',
    '<6>[   70.000000] veth0: link 4321 becomes ready',
    '<6>[   71.000000] oom-kill:constraint=CONSTRAINT_NONE,task=warren,pid=4321,uid=0',
    '<3>[   71.000001] Out of memory: Killed process 4321 (warren) total-vm:9kB',
    '<3>[   71.000002] Out of memory: Killed process 43210 (python3) total-vm:9kB',
  ].join('\n')
  const text = explainLastEnd(server, bootedAt, kernelLog)
  assert.match(
    text,
    /process 4321\) ended without closing\. The kernel says: oom-kill:.*Killed process 4321 \(warren\)/,
  )
  assert.doesNotMatch(text, /earlier|veth0|43210/)
})

it('the log says that the previous Warren crashed', () => {
  const text = explainLastEnd(server, bootedAt, '<6>[ 99.5] node[4321]: segfault at 0 ip 00000000')
  assert.match(text, /The kernel says: node\[4321\]: segfault/)
})

it('the log says so if the kernel has no message about the end', () => {
  assert.match(explainLastEnd(server, bootedAt, ''), /The kernel says nothing about it/)
  assert.match(explainLastEnd(server, bootedAt, undefined), /cannot be read here/)
})

it('the log explains the end by a restart of the machine', () => {
  const before = { pid: 4321, startedAt: bootedAt - 1 }
  assert.match(explainLastEnd(before, bootedAt, ''), /The machine was restarted meanwhile/)
})

it('the log says nothing about a previous Warren that closed in order', async () => {
  const folder = await mkdtemp(join(tmpdir(), 'warren-last-end-'))
  const logged: string[] = []
  const log = { ...silentLog, warn: (_: object, message: string) => logged.push(message) }
  try {
    const paths = await openDataFolder(folder)
    await saveServerFile(paths, { ...server, startedAt: Date.now(), url: '', domain: null, tlsCert: null })
    await reportLastEnd(paths, systemClock, log)
    assert.equal(logged.length, 1)
    await removeServerFile(paths)
    await reportLastEnd(paths, systemClock, log)
    assert.equal(logged.length, 1)
  } finally {
    await rm(folder, { recursive: true, force: true })
  }
})
