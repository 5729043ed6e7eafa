/** The command line as a package of its own, as a person installs it on a machine without Warren. */
import assert from 'node:assert/strict'
import { execFileSync } from 'node:child_process'
import { mkdirSync, mkdtempSync, readdirSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { text } from 'node:stream/consumers'
import { after, before, describe, it } from 'node:test'
import { anyIsolation, joinWarren, repoFolder, type Warren } from '../support/warren.ts'
import { codeOf, startProgram } from '../support/warren-command.ts'

describe('the package of the command line', () => {
  let warren: Warren
  const folder = mkdtempSync(join(tmpdir(), 'warren-package-'))
  before(async () => {
    warren = await joinWarren(anyIsolation)
  })
  after(async () => {
    rmSync(folder, { recursive: true })
    await warren?.stop()
  })

  async function run(environment: Record<string, string>, ...args: string[]) {
    const child = startProgram(environment, join(folder, 'place/node_modules/.bin/warren'), args)
    child.stdin.end()
    const code = codeOf(child)
    const [out, error] = await Promise.all([text(child.stdout), text(child.stderr)])
    return { code: await code, out, error }
  }

  it('is installed alone, from its archive, without any other package', () => {
    const packed = execFileSync(join(repoFolder, 'bin/client-package'), { cwd: folder, encoding: 'utf8' })
    const archive = packed.trim().split('\n').at(-1)!
    assert.match(archive, /^warren-[\d.]+\.tgz$/)
    mkdirSync(join(folder, 'place'))
    const options = ['--offline', '--no-audit', '--no-fund', '--loglevel=error']
    execFileSync('npm', ['install', ...options, join(folder, archive)], { cwd: join(folder, 'place') })
    const packages = readdirSync(join(folder, 'place/node_modules')).filter((name) => !name.startsWith('.'))
    assert.deepEqual(packages, ['warren'])
    const files = readdirSync(join(folder, 'place/node_modules/warren'))
    assert.deepEqual(files.sort(), ['LICENSE', 'README.md', 'package.json', 'warren.mjs'])
  })

  it('runs commands on any Warren, by its address and a key', async () => {
    const ended = await run(warren.environment, 'run', '-e', 'A=1', 'sh', '-c', 'echo "$A"; exit 3')
    assert.deepEqual(ended, { code: 3, out: '1\n', error: '' })
    assert.match((await run(warren.environment, 'secret', 'ls')).out, /^The team has no secrets/)
  })

  it('has the commands of a team, and says what is missing', async () => {
    const help = (await run({}, '--help')).out
    for (const name of ['run', 'sandbox', 'template', 'volume'])
      assert.match(help, new RegExp(`^  ${name} `, 'm'))
    assert.doesNotMatch(help, /^ {2}(start|systemd|node|prune) /m)
    const alone = await run({}, 'ps')
    assert.deepEqual([alone.code, alone.out], [1, ''])
    assert.match(
      alone.error,
      /^E2B_API_URL \(or E2B_DOMAIN\) and E2B_API_KEY are not set\. `bin\/warren env` prints/,
    )
    const admin = await run(warren.environment, 'volume', 'lost')
    assert.match(admin.error, /^Only the operator can do this/)
    assert.match(
      (await run(warren.environment, 'team', 'create', 'x')).error,
      /^Only the operator can do this/,
    )
  })
})
