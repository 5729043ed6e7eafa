/**
 * Domain and TLS with a certificate of `warren cert`: unmodified clients that know E2B_DOMAIN, their key and
 * whom to trust, and nothing else.
 */
import assert from 'node:assert/strict'
import { execFileSync } from 'node:child_process'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, before, describe, it } from 'node:test'
import { type NameServer, startNameServer } from '../support/name-server.ts'
import { pythonCommand } from '../support/python.ts'
import { javaScriptReleases, pythonReleases } from '../support/releases.ts'
import { anyIsolation, noWarmPool, repoFolder, startWarren, type Warren } from '../support/warren.ts'

const domain = 'warren.test'
const programs = join(import.meta.dirname, 'domain')

describe('clients with a domain', () => {
  let names: NameServer
  let folder: string
  let warren: Warren
  let environment: Record<string, string | undefined>
  before(async () => {
    folder = mkdtempSync(join(tmpdir(), 'domain-'))
    const made = execFileSync(
      join(repoFolder, 'bin/warren'),
      ['cert', '--domain', domain, '--out', folder, '--json'],
      { encoding: 'utf8' },
    )
    const { settings, trust } = JSON.parse(made)
    names = await startNameServer(domain)
    warren = await startWarren(anyIsolation, { settings: { ...noWarmPool, ...settings } })
    const printed = execFileSync(join(repoFolder, 'bin/warren'), ['env', '--json'], {
      encoding: 'utf8',
      env: { PATH: process.env.PATH, WARREN_DATA_DIR: warren.dataFolder },
    })
    const { E2B_API_KEY, E2B_DOMAIN, ...more } = JSON.parse(printed)
    assert.deepEqual(more, {}, 'a domain with TLS needs no other variable')
    const { PATH, HOME } = process.env
    environment = { PATH, HOME, E2B_API_KEY, E2B_DOMAIN, ...trust }
  })
  after(async () => {
    await warren?.stop()
    await names?.close()
    rmSync(folder, { recursive: true, force: true })
  })

  async function run(program: string, args: string[], more: Record<string, string> = {}): Promise<void> {
    const child = names.spawn(program, args, { ...environment, ...more })
    let output = ''
    child.stdout?.on('data', (chunk) => (output += chunk))
    child.stderr?.on('data', (chunk) => (output += chunk))
    const timer = setTimeout(() => child.kill('SIGKILL'), 120_000)
    const code = await new Promise((resolve) => child.once('close', resolve))
    clearTimeout(timer)
    assert.equal(code, 0, output)
    assert.match(output, /^done$/m)
  }

  for (const [version, , packageName] of javaScriptReleases(anyIsolation, 'same')) {
    it(`JavaScript ${version}: commands, files, links, ports, WebSockets, terminals`, () =>
      run(join(repoFolder, 'bin/node'), [join(programs, 'client.ts'), packageName]))
  }

  for (const [version] of pythonReleases(anyIsolation, 'same')) {
    it(`Python ${version}: commands, files, links, ports, terminals`, () => {
      const commands = anyIsolation === 'container' ? '120' : '20'
      return run(...pythonCommand(version, join(programs, 'client.py')), { COMMANDS: commands })
    })
  }
})
