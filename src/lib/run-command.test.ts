import assert from 'node:assert/strict'
import { after, before, describe, it } from 'node:test'
import { threadId, Worker } from 'node:worker_threads'
import { ProgramThread } from './program-thread.ts'
import { CommandFailed, runCommand, startProgramsInThread } from './run-command.ts'

const modes: Record<string, () => () => Promise<void>> = {
  'by the thread that wants it': () => async () => {},
  'by a thread of its own': startProgramsInThread,
}

for (const [mode, begin] of Object.entries(modes)) {
  describe(`a program that is started ${mode}`, () => {
    let end: () => Promise<void>
    before(() => {
      end = begin()
    })
    after(() => end())

    it('gets its input, and its output is returned', async () => {
      assert.deepEqual(await runCommand('sh', ['-c', 'cat; echo err >&2'], { input: 'in' }), {
        stdout: 'in',
        stderr: 'err\n',
      })
    })

    it('is quoted with its exit code if it fails', async () => {
      await assert.rejects(runCommand('sh', ['-c', 'echo why >&2; exit 3']), (error) => {
        assert.ok(error instanceof CommandFailed)
        assert.deepEqual([error.exitCode, error.message.includes('why')], [3, true])
        return true
      })
      await assert.rejects(runCommand('/nowhere/program', []), /ENOENT/)
      await assert.rejects(runCommand('true', ['a\0b']), /null bytes/)
    })

    it('is killed if it takes too long', async () => {
      await assert.rejects(runCommand('sleep', ['60'], { timeoutMs: 50 }), CommandFailed)
    })

    it("is killed when the signal aborts, and the call fails with the signal's reason", async () => {
      const reason = new Error('not wanted any more')
      const abort = new AbortController()
      const ran = runCommand('sleep', ['60'], { signal: abort.signal })
      abort.abort(reason)
      await assert.rejects(ran, (error) => error === reason)
      await assert.rejects(runCommand('sleep', ['60'], { signal: abort.signal }), (error) => error === reason)
    })

    it('has its output delivered while it prints', async () => {
      const seen: string[] = []
      await runCommand('echo', ['now'], { onOutput: (chunk) => seen.push(String(chunk)) })
      assert.deepEqual(seen, ['now\n'])
    })
  })
}

describe('the thread that starts programs', () => {
  /** The kernel thread that started a program, if the kernel shows it. */
  const starter = 'cat /proc/$PPID/task/*/children | tr " " "\\n" | grep -cx $$'

  it('is not the thread of the event loop', async () => {
    const end = startProgramsInThread()
    const ofEventLoop = `tr " " "\\n" < /proc/$PPID/task/$PPID/children | grep -cx $$ || true`
    assert.equal((await runCommand('sh', ['-c', `${starter}; ${ofEventLoop}`])).stdout, '1\n0\n')
    await end()
    assert.equal((await runCommand('sh', ['-c', `${starter}; ${ofEventLoop}`])).stdout, '1\n1\n')
    assert.equal(threadId, 0)
  })

  it('fails pending starts if it ends by itself, and starts nothing more', async (t) => {
    const terminate = t.mock.method(Worker.prototype, 'terminate')
    const thread = new ProgramThread()
    const failed = assert.rejects(thread.run({ program: 'sleep', args: ['1'] }), /thread .* failed: it ended/)
    await thread.close()
    await failed
    assert.equal(terminate.mock.callCount(), 0)
    assert.equal(thread.isUsable, false)
    await assert.rejects(thread.run({ program: 'true', args: [] }), /thread .* failed: it ended/)
  })
})
