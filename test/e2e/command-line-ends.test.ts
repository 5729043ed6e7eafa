/** What `warren run` and `sandbox exec` say when their sandbox ends first, and what of them the sandbox's log shows. */
import assert from 'node:assert/strict'
import { once } from 'node:events'
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { text } from 'node:stream/consumers'
import { after, before, describe, it } from 'node:test'
import { isolations, joinWarren, type Warren } from '../support/warren.ts'
import { codeOf, runCommandLine, startCommand } from '../support/warren-command.ts'

for (const isolation of isolations) {
  describe(`the command line at the end of a sandbox (${isolation})`, () => {
    let warren: Warren
    const folder = mkdtempSync(join(tmpdir(), 'warren-ends-'))
    before(async () => {
      warren = await joinWarren(isolation)
    })
    after(async () => {
      rmSync(folder, { recursive: true })
      await warren?.stop()
    })

    const run = (...args: string[]) => runCommandLine(warren.environment, args)
    const out = async (...args: string[]) => {
      const ended = await run(...args)
      assert.equal(ended.code, 0, `${args.join(' ')}: ${ended.error}`)
      return ended.out.trimEnd()
    }
    /** Starts a command that sleeps, and waits until it does. */
    const startSleeper = async (...args: string[]) => {
      const script = 'echo started; exec sleep 1000'
      const child = startCommand(warren.environment, [...args, '--', 'sh', '-c', script])
      const ended = Promise.all([codeOf(child), text(child.stderr)])
      await once(child.stdout, 'data')
      return { ended }
    }

    it('says that the time of a run is over', async () => {
      const ended = await run('run', '--timeout', '1', '--', 'sleep', '1000')
      assert.deepEqual(ended, { code: 125, out: '', error: 'The sandbox ended after 1 s (--timeout).\n' })
    })

    it('says that a sandbox was killed or paused from elsewhere', async () => {
      const sandboxID = await out('sandbox', 'create')
      const paused = await startSleeper('sandbox', 'exec', sandboxID)
      await out('sandbox', 'pause', sandboxID)
      const said = 'The sandbox was paused while the command ran.'
      const [resume, kill] = ['resume', 'kill'].map((verb) => `\`warren sandbox ${verb} ${sandboxID}\``)
      const how = `${resume} lets it go on, ${kill} ends it.`
      assert.deepEqual(await paused.ended, [125, `${said} ${how}\n`])
      await out('sandbox', 'resume', sandboxID)
      const killed = await startSleeper('sandbox', 'exec', sandboxID)
      await out('sandbox', 'kill', sandboxID)
      assert.deepEqual(await killed.ended, [125, 'The sandbox was killed while the command ran.\n'])
    })

    it('keeps the sandbox of a run that was paused from elsewhere', async () => {
      const { ended } = await startSleeper('run', '--metadata', 'who=paused')
      const [sandbox] = JSON.parse(await out('sandbox', 'list', '--metadata', 'who=paused', '--json'))
      await out('sandbox', 'pause', sandbox.sandboxID)
      const [code, said] = await ended
      assert.equal(code, 125)
      assert.match(said, /^The sandbox was paused/)
      assert.match(await out('sandbox', 'info', sandbox.sandboxID), /^state +paused$/m)
      await out('sandbox', 'kill', sandbox.sandboxID)
    })

    it('rejects -it and a shell without a terminal, and ends a terminal whose input has ended', async () => {
      for (const args of [
        ['run', '-it'],
        ['sandbox', 'shell', 'inosuchsandbox0000000'],
      ]) {
        const ended = await run(...args)
        assert.deepEqual([ended.code, ended.out], [2, ''])
        assert.match(ended.error, /^The input is not a terminal, which (-it|a shell) needs/)
      }
      // The first end of the input meets a shell that has not set its terminal up yet.
      const script = 'stty -icanon; sleep 2; stty icanon; exec cat'
      assert.equal((await run('run', '-t', '--', 'sh', '-c', script)).code, 0)
    })

    it('leaves what a copy runs in the sandbox out of its log', async () => {
      const sandboxID = await out('sandbox', 'create')
      const source = join(folder, 'project')
      mkdirSync(source)
      writeFileSync(join(source, 'run.sh'), 'true', { mode: 0o755 })
      await out('sandbox', 'cp', source, `${sandboxID}:/tmp/new`)
      await out('sandbox', 'cp', join(source, 'run.sh'), `${sandboxID}:/tmp/run.sh`)
      await out('sandbox', 'cp', `${sandboxID}:/tmp/new`, join(folder, 'back'))
      await out('sandbox', 'exec', sandboxID, '--', 'echo', 'the last line')
      const log = await out('sandbox', 'logs', sandboxID)
      assert.match(log, /the last line/)
      const started = log.match(/Process started: .*/g)
      assert.deepEqual(started, ['Process started: echo the last line'])
      assert.doesNotMatch(log, /ustar/)
      await out('sandbox', 'kill', sandboxID)
    })
  })
}
