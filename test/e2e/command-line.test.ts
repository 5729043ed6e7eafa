/** `warren run`, `sandbox`, `snapshot` and `secret`, as a person types them. */
import assert from 'node:assert/strict'
import { execFileSync } from 'node:child_process'
import { once } from 'node:events'
import {
  chmodSync,
  mkdirSync,
  mkdtempSync,
  readFileSync,
  readlinkSync,
  rmSync,
  statSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { text } from 'node:stream/consumers'
import { after, before, describe, it } from 'node:test'
import { Sandbox } from 'e2b'
import { eventually } from '../support/eventually.ts'
import { anyIsolation, joinWarren, repoFolder, type Warren } from '../support/warren.ts'
import { bytesOf, codeOf, runCommandLine, startCommand, startProgram } from '../support/warren-command.ts'

describe('the command line', () => {
  let warren: Warren
  const folder = mkdtempSync(join(tmpdir(), 'warren-command-line-'))
  before(async () => {
    warren = await joinWarren(anyIsolation)
  })
  after(async () => {
    rmSync(folder, { recursive: true })
    await warren?.stop()
  })

  const run = (...args: string[]) => runCommandLine(warren.environment, args)
  const start = (...args: string[]) => startCommand(warren.environment, args)
  /** The output of a command that must succeed, without the last line end. */
  const out = async (...args: string[]) => {
    const ended = await run(...args)
    assert.equal(ended.code, 0, `${args.join(' ')}: ${ended.error}`)
    return ended.out.trimEnd()
  }
  const listed = async () => {
    const found: { sandboxID: string }[] = JSON.parse(await out('sandbox', 'list', '--json'))
    return found.map(({ sandboxID }) => sandboxID)
  }

  it('runs a command in a sandbox of its own: output, exit code, and nothing is left', async () => {
    const ended = await run('run', '-e', 'WHO=me', '--', 'sh', '-c', 'echo "out $WHO"; echo err >&2; exit 7')
    assert.deepEqual(ended, { code: 7, out: 'out me\n', error: 'err\n' })
    const killed = await run('run', '--', 'sh', '-c', 'kill -TERM $$')
    assert.equal(killed.code, 143)
    assert.deepEqual(await listed(), [])
  })

  it('passes output on as it comes, and the input that is piped into it', async () => {
    const child = start('run', '--', 'sh', '-c', 'echo first; read line; echo "got $line"')
    const code = codeOf(child)
    assert.equal(String((await once(child.stdout, 'data'))[0]), 'first\n')
    child.stdin.write('hello\n')
    assert.equal(String((await once(child.stdout, 'data'))[0]), 'got hello\n')
    assert.equal(await code, 0)
    const bytes = Buffer.from(Array.from({ length: 3_000_000 }, (_, at) => (at * 7919) % 251))
    assert.ok(bytes.equals(await bytesOf(warren.environment, ['run', '--', 'cat'], bytes)))
  })

  it('kills the sandbox on Ctrl-C, and when nobody reads the output any more', async () => {
    const child = start('run', '--', 'sh', '-c', 'echo started; exec sleep 1000')
    const code = codeOf(child)
    await once(child.stdout, 'data')
    child.kill('SIGINT')
    assert.equal(await code, 130)
    assert.deepEqual(await listed(), [])
    const endless = start('run', '--', 'yes')
    const ended = codeOf(endless)
    await once(endless.stdout, 'data')
    endless.stdout.destroy()
    assert.equal(await ended, 141)
    assert.deepEqual(await listed(), [])
  })

  it('gives a command a terminal of the right size, and its exit code', async () => {
    const typed = `stty cols 101 rows 31; exec "${repoFolder}/bin/warren" run -it -- sh -c 'tty; stty size; exit 5'`
    const child = startProgram(warren.environment, 'script', ['-qec', typed, '/dev/null'])
    const code = codeOf(child)
    const shown = await text(child.stdout)
    assert.match(shown, /\/dev\/pts\/\d+\r+\n31 101\r+\n/)
    assert.equal(await code, 5)
  })

  it('leaves a kept sandbox, and says which', async () => {
    const ended = await run('run', '--keep', '--metadata', 'who=cli', '--', 'touch', '/tmp/kept')
    assert.equal(ended.code, 0)
    const [, sandboxID] = /The sandbox (\w+) goes on for 5 min\./.exec(ended.error)!
    assert.equal(await out('sandbox', 'exec', sandboxID!, '--', 'ls', '/tmp/kept'), '/tmp/kept')
    assert.match(await out('sandbox', 'list', '--metadata', 'who=cli'), new RegExp(sandboxID!))
    await out('sandbox', 'kill', sandboxID!)
  })

  it("says what is wrong, with an exit code that is not the command's", async () => {
    const missing = await run('run', '--template', 'no-such-template', '--', 'true')
    assert.deepEqual([missing.code, missing.out], [125, ''])
    assert.match(missing.error, /no-such-template.* not found\. `warren template list` shows/)
    const unknown = await run('run', '--', 'no-such-program')
    assert.equal(unknown.code, 127)
    assert.match(unknown.error, /'no-such-program' could not be started: no such program/)
    assert.equal((await run('run', '--cwd', '/nowhere', '--', 'true')).code, 126)
    assert.match((await run('run')).error, /A command is missing/)
    const dead = await run('sandbox', 'exec', 'inosuchsandbox0000000', '--', 'true')
    assert.equal(dead.code, 125)
    assert.match(dead.error, /not found|doesn't exist|does not exist/i)
    assert.match((await run('run', '--help')).out, /--template[\s\S]*--keep/)
    assert.deepEqual(await listed(), [])
  })

  it('creates a sandbox, runs commands in it, and reaches its ports', async () => {
    const sandboxID = await out('sandbox', 'create', '--timeout', '600', '--env', 'A=of the sandbox')
    const shown = await out(
      ...['sandbox', 'exec', sandboxID, '-e', 'B=of the command'],
      '--',
      'sh',
      '-c',
      'echo "$A, $B"',
    )
    assert.equal(shown, 'of the sandbox, of the command')
    const asRoot = ['sandbox', 'exec', sandboxID, '--user', 'root', '--cwd', '/usr', '--', 'sh', '-c']
    assert.equal(await out(...asRoot, 'whoami; pwd'), 'root\n/usr')
    assert.equal((await run('sandbox', 'exec', sandboxID, '--', 'sh', '-c', 'exit 9')).code, 9)
    const serve = 'cd /usr && nohup python3 -m http.server 8000 >/dev/null 2>&1 & true'
    await out('sandbox', 'exec', sandboxID, '--', 'sh', '-c', serve)
    const url = await out('sandbox', 'port', sandboxID, '8000')
    assert.match(url, new RegExp(`^http://8000-${sandboxID}\\.localhost:\\d+$`))
    await eventually(async () =>
      assert.match(execFileSync('curl', ['-sS', url], { encoding: 'utf8' }), /bin\//),
    )
    assert.equal((await run('sandbox', 'port', sandboxID, '70000')).code, 2)
    await out('sandbox', 'pause', sandboxID)
    const paused = await run('sandbox', 'exec', sandboxID, '--', 'true')
    assert.match(paused.error, /is paused\. Run `warren sandbox resume/)
    await out('sandbox', 'kill', sandboxID)
  })

  it('tells the token of a port that is not public', async () => {
    const network = { allowPublicTraffic: false }
    const sandbox = await Sandbox.create({ ...warren.client, network, timeoutMs: 600_000 })
    await sandbox.commands.run('python3 -m http.server 8000', { background: true })
    const ended = await run('sandbox', 'port', sandbox.sandboxId, '8000')
    const [, token] = /: (e2b-traffic-access-token: \S+)\n/.exec(ended.error)!
    const status = (...more: string[]) =>
      execFileSync('curl', ['-s', '-o', '/dev/null', '-w', '%{http_code}', ...more, ended.out.trim()], {
        encoding: 'utf8',
      })
    await eventually(async () => assert.equal(status('-H', token!), '200'))
    assert.equal(status(), '403')
    await sandbox.kill()
  })

  it('copies files and folders in and out, as docker cp does', async () => {
    const sandboxID = await out('sandbox', 'create', '--timeout', '600')
    const inside = (script: string) => out('sandbox', 'exec', sandboxID, '--', 'sh', '-c', script)
    const project = join(folder, 'project')
    mkdirSync(join(project, 'deep'), { recursive: true })
    writeFileSync(join(project, 'run.sh'), '#!/bin/sh\necho ran\n')
    chmodSync(join(project, 'run.sh'), 0o755)
    writeFileSync(join(project, 'deep/größe.txt'), 'text')
    symlinkSync('deep/größe.txt', join(project, 'link'))
    // A new folder, a folder in an existing one, and the contents of a folder.
    await out('sandbox', 'cp', project, `${sandboxID}:/home/user/new`)
    assert.equal(await inside('cd new && ./run.sh && cat link && stat -c %U run.sh'), 'ran\ntextuser')
    await out('sandbox', 'cp', project, `${sandboxID}:new`)
    await out('sandbox', 'cp', `${project}/.`, `${sandboxID}:/tmp`)
    assert.equal(await inside('cat new/project/deep/*; readlink /tmp/link'), 'textdeep/größe.txt')
    // Files: by a new name, into a folder, and over another.
    await out('sandbox', 'cp', join(project, 'run.sh'), `${sandboxID}:/tmp/renamed`)
    await out('sandbox', 'cp', join(project, 'deep/größe.txt'), `${sandboxID}:/tmp/`)
    assert.equal(await inside('/tmp/renamed; cat /tmp/größe.txt'), 'ran\ntext')
    // Out again.
    await out('sandbox', 'cp', `${sandboxID}:new`, join(folder, 'back'))
    assert.equal(readFileSync(join(folder, 'back/project/deep/größe.txt'), 'utf8'), 'text')
    assert.equal(readlinkSync(join(folder, 'back/link')), 'deep/größe.txt')
    assert.equal(statSync(join(folder, 'back/run.sh')).mode & 0o777, 0o755)
    await out('sandbox', 'cp', `${sandboxID}:/tmp/renamed`, join(folder, 'back'))
    await out('sandbox', 'cp', `${sandboxID}:/tmp/link`, join(folder, 'one.txt'))
    assert.equal(readFileSync(join(folder, 'back/renamed'), 'utf8'), '#!/bin/sh\necho ran\n')
    assert.equal(readFileSync(join(folder, 'one.txt'), 'utf8'), 'text')
    const wrong: [string, string, RegExp][] = [
      [join(folder, 'missing'), `${sandboxID}:/tmp`, /There is no file or folder '.*missing'/],
      [`${sandboxID}:/missing`, folder, /The sandbox has no '\/missing'/],
      [`${sandboxID}:/tmp/link`, join(folder, 'no/such/file'), /There is no folder/],
      [project, `${sandboxID}:/tmp/link`, /is a file in the sandbox/],
      [`${sandboxID}:/tmp`, join(folder, 'one.txt'), /is a file, not a folder/],
      [project, folder, /Either SOURCE or TARGET must be SANDBOX:PATH/],
    ]
    for (const [source, target, says] of wrong) {
      const ended = await run('sandbox', 'cp', source, target)
      assert.notEqual(ended.code, 0)
      assert.match(ended.error, says)
    }
    await inside('head -c 3000000 /dev/zero > large')
    const large = await run('sandbox', 'cp', '--max-mb', '1', `${sandboxID}:large`, join(folder, 'large'))
    assert.match(large.error, /larger than 1 MiB; --max-mb allows more/)
    await out('sandbox', 'kill', sandboxID)
  })

  it('takes snapshots, starts sandboxes of them, and deletes them', async () => {
    const sandboxID = await out('sandbox', 'create', '--timeout', '600')
    await out('sandbox', 'exec', sandboxID, '--', 'sh', '-c', 'echo kept > state')
    const name = await out('snapshot', 'create', sandboxID, '--name', 'by-hand')
    assert.match(name, /by-hand/)
    await out('sandbox', 'kill', sandboxID)
    assert.match(await out('snapshot', 'list', '--sandbox', sandboxID), /by-hand/)
    assert.equal(await out('run', '--template', 'by-hand', '--', 'cat', 'state'), 'kept')
    await out('snapshot', 'delete', 'by-hand')
    assert.equal(await out('snapshot', 'list'), 'There are no snapshots.')
  })

  it('keeps secrets, and shows none', async () => {
    const pipe = (value: string, ...args: string[]) =>
      runCommandLine(warren.environment, args, { input: value })
    const made = await pipe('first-value\n', 'secret', 'create', 'hand-key', '--metadata', 'owner=me')
    assert.deepEqual(made, { code: 0, out: 'The secret hand-key is stored.\n', error: '' })
    assert.equal(
      (await pipe('next', 'secret', 'update', 'hand-key')).out,
      'The secret hand-key has version 2.\n',
    )
    const shown = await out('secret', 'list')
    assert.match(shown, /hand-key +sec_\w+ +2 .*owner=me/)
    assert.ok(!/first-value|next/.test(shown))
    assert.equal((await pipe('', 'secret', 'create', 'empty')).code, 1)
    assert.equal(await out('secret', 'delete', 'hand-key'), 'The secret hand-key is deleted.')
    assert.equal(await out('secret', 'list'), 'The team has no secrets.')
  })
})
