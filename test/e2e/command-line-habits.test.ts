/** What one types by habit: volumes by hand, and forks and resumes that keep the time that is left. */
import assert from 'node:assert/strict'
import { after, before, describe, it } from 'node:test'
import { anyIsolation, joinWarren, type Warren } from '../support/warren.ts'
import { runCommandLine } from '../support/warren-command.ts'

describe('the command line by habit', () => {
  let warren: Warren
  before(async () => {
    warren = await joinWarren(anyIsolation)
  })
  after(() => warren?.stop())

  const run = (...args: string[]) => runCommandLine(warren.environment, args)
  const out = async (...args: string[]) => {
    const ended = await run(...args)
    assert.equal(ended.code, 0, `${args.join(' ')}: ${ended.error}`)
    return ended.out.trimEnd()
  }
  const secondsLeft = async (sandboxID: string) => {
    const { endAt } = JSON.parse(await out('sandbox', 'info', sandboxID, '--json'))
    return (Date.parse(endAt) - Date.now()) / 1000
  }

  it('makes a volume, keeps files in it, and deletes it', async () => {
    const missing = await run('run', '--volume', 'by-hand:/data', '--', 'true')
    assert.equal(missing.code, 125)
    assert.match(missing.error, /by-hand.* not found\. `warren volume create NAME` makes one/)
    assert.doesNotMatch(missing.error, /template/)
    assert.match(await out('volume', 'create', 'by-hand'), /^The volume by-hand is ready\./)
    await out('run', '--volume', 'by-hand:/data', '--', 'sh', '-c', 'echo kept > /data/file')
    assert.equal(await out('run', '--volume', 'by-hand:/data', '--', 'cat', '/data/file'), 'kept')
    assert.match(await out('volume', 'list'), /^VOLUME .*\nby-hand +\S+ +\d+ MiB +\d{4}-\d\d-\d\d$/)
    assert.equal(await out('volume', 'delete', 'by-hand'), 'The volume by-hand is deleted.')
    assert.equal(await out('volume', 'list'), 'There are no volumes.')
  })

  it('runs commands without --, under a name, with the words of Docker', async () => {
    assert.equal(await out('run', '--rm', '-e', 'A=1', 'sh', '-c', 'echo "$A"; echo --help'), '1\n--help')
    const sandboxID = await out('sandbox', 'create', '--name', 'web')
    const refused = await run('run', '--name', 'web', 'true')
    assert.equal(refused.code, 125)
    assert.match(refused.error, new RegExp(`The sandbox ${sandboxID} has the name 'web'`))
    assert.equal(await out('exec', 'web', 'ls', '-d', '/usr'), '/usr')
    assert.match(await out('ps'), new RegExp(`^SANDBOX .*\n${sandboxID} .* name=web$`))
    for (const words of [['sandbox', 'ls'], ['ls']])
      assert.match(await out(...words), new RegExp(`^${sandboxID} `, 'm'))
    await out('cp', '/etc/hostname', 'web:/tmp/name')
    assert.equal(await out('exec', 'web', '--', 'ls', '/tmp/name'), '/tmp/name')
    assert.equal(await out('stop', 'web'), `The sandbox ${sandboxID} is paused.`)
    assert.equal(await out('rm', 'web'), `The sandbox ${sandboxID} is killed.`)
    const gone = await run('exec', 'web', 'true')
    assert.equal(gone.code, 125)
    assert.match(gone.error, /"web" doesn't exist/)
  })

  it('suggests what was meant, at every level', async () => {
    const wrong: [string[], RegExp][] = [
      [['sanbox'], /Did you mean `warren sandbox`\? Run `warren --help`/],
      [['sandbox', 'exce'], /Did you mean `warren sandbox exec`\? Run `warren sandbox --help`/],
      [['sandbox', 'fork', 'x', '--cuont', '2'], /Did you mean `--count`\? Run `warren sandbox fork --help`/],
      [['run', '--tempalte', 'x', 'ls'], /Did you mean `--template`\? Run `warren run --help`/],
      [['prune', '--dryrun'], /Did you mean `--dry-run`\?/],
    ]
    for (const [args, says] of wrong) {
      const ended = await run(...args)
      assert.equal(ended.code, 2, args.join(' '))
      assert.match(ended.error, says)
    }
  })

  it('gives forks and resumed sandboxes the time that was left, unless told otherwise', async () => {
    const sandboxID = await out('sandbox', 'create', '--timeout', '3000')
    const fork = await out('sandbox', 'fork', sandboxID)
    const short = await out('sandbox', 'fork', sandboxID, '--timeout', '60')
    const [ofFork, ofShort] = [await secondsLeft(fork), await secondsLeft(short)]
    assert.ok(ofFork > 2000 && ofFork <= 3000, `the fork has ${ofFork} s`)
    assert.ok(ofShort <= 60, `the short fork has ${ofShort} s`)
    await out('sandbox', 'pause', sandboxID)
    assert.match(await out('sandbox', 'resume', sandboxID), / runs for (4\d|50) min\.$/)
    const resumed = await secondsLeft(sandboxID)
    assert.ok(resumed > 2000 && resumed <= 3000, `the resumed one has ${resumed} s`)
    await out('sandbox', 'kill', sandboxID, fork, short)
  })
})
