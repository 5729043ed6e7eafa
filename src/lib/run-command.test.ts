import assert from 'node:assert/strict'
import { it } from 'node:test'
import { CommandFailed, runCommand } from './run-command.ts'

it('gives what the program printed, and hands it its input', async () => {
  assert.deepEqual(await runCommand('sh', ['-c', 'cat; echo err >&2'], { input: 'in' }), {
    stdout: 'in',
    stderr: 'err\n',
  })
})

it('a failure quotes the program and carries its exit code', async () => {
  await assert.rejects(runCommand('sh', ['-c', 'echo why >&2; exit 3']), (error) => {
    assert.ok(error instanceof CommandFailed)
    assert.deepEqual([error.exitCode, error.message.includes('why')], [3, true])
    return true
  })
  await assert.rejects(runCommand('/nowhere/program', []), /ENOENT/)
})

it('kills what takes too long', async () => {
  await assert.rejects(runCommand('sleep', ['60'], { timeoutMs: 50 }), CommandFailed)
})

it('kills the program when the signal aborts, and the reason of the signal is told', async () => {
  const abort = new AbortController()
  const reason = new Error('not wanted any more')
  const ran = runCommand('sleep', ['60'], { signal: abort.signal })
  abort.abort(reason)
  await assert.rejects(ran, (error) => error === reason)
})
