import assert from 'node:assert/strict'
import { spawnSync } from 'node:child_process'
import { join } from 'node:path'
import test from 'node:test'
import { refusedStatus, StartRefusal } from '../process/start-refusal.ts'
import { refuseMachine } from './start.ts'

test('an unsupported machine is rejected in one sentence', () => {
  assert.throws(() => refuseMachine('darwin', 'arm64', 0), /needs Linux; this is darwin/)
  assert.throws(() => refuseMachine('linux', 'ppc64', 0), /this is ppc64/)
  assert.throws(() => refuseMachine('linux', 'x64', 1000), /must run as root.*sudo npm start/)
  refuseMachine('linux', 'x64', 0)
})

test('an impossible machine or setting ends the start with its own exit status', () => {
  assert.throws(() => refuseMachine('linux', 'x64', 1000), StartRefusal)
  const args = [join(import.meta.dirname, '../main.ts'), 'start']
  const env = { ...process.env, WARREN_PORT: 'no port' }
  const { status, stderr } = spawnSync(process.execPath, args, { env, encoding: 'utf8' })
  assert.match(stderr, /^WARREN_PORT is 'no port'/)
  assert.equal(status, refusedStatus)
})
