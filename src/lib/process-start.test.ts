import assert from 'node:assert/strict'
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { existsSync } from 'node:fs'
import test from 'node:test'
import { processStart } from './process-start.ts'

test('a running process has a start, which stays the same', () => {
  assert.match(processStart(process.pid)!, /^\d+$/)
  assert.equal(processStart(process.pid), processStart(process.pid))
})

test('a process that has ended has none, reaped or not', async (context) => {
  const program = `
import os, sys, time
child = os.fork()
if child == 0: os._exit(0)
os.waitid(os.P_PID, child, os.WEXITED | os.WNOWAIT)
print(child, flush=True)
sys.stdin.read()`
  const parent = spawn('python3', ['-c', program], { stdio: ['pipe', 'pipe', 'inherit'] })
  context.after(() => parent.kill('SIGKILL'))
  const [printed] = await once(parent.stdout, 'data')
  const pid = Number(printed)
  assert.ok(existsSync(`/proc/${pid}`), 'it is no zombie')
  assert.equal(processStart(pid), undefined)
  parent.stdin.end()
  await once(parent, 'exit')
  assert.equal(processStart(parent.pid!), undefined)
})
