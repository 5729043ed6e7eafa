/**
 * Domain and TLS with a certificate of `warren cert`: unmodified clients that know E2B_DOMAIN, their key and
 * whom to trust, and nothing else.
 */
import assert from 'node:assert/strict'
import { execFileSync } from 'node:child_process'
import { createHash, X509Certificate } from 'node:crypto'
import { mkdtempSync, readFileSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, before, describe, it } from 'node:test'
import { goTo, logIn } from '../dashboard/browser.ts'
import { openBrowserApart } from '../dashboard/browser-apart.ts'
import { eventually } from '../support/eventually.ts'
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
  let certificateFile: string
  before(async () => {
    folder = mkdtempSync(join(tmpdir(), 'domain-'))
    const made = execFileSync(
      join(repoFolder, 'bin/warren'),
      ['cert', '--domain', domain, '--out', folder, '--json'],
      { encoding: 'utf8' },
    )
    const { settings, trust } = JSON.parse(made)
    certificateFile = settings.WARREN_TLS_CERT
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

  it('the dashboard: works from its own host, and a page of a sandbox can neither frame it nor read its storage', async () => {
    const { publicKey } = new X509Certificate(readFileSync(certificateFile))
    const trusted = createHash('sha256')
      .update(publicKey.export({ type: 'spki', format: 'der' }))
      .digest('base64')
    const { hostname, port, origin } = new URL(`https://api.${environment.E2B_DOMAIN}`)
    const browser = await openBrowserApart(Number(port || 443), [
      `--host-resolver-rules=MAP *.${hostname.replace('api.', '')} 127.0.0.1`,
      `--ignore-certificate-errors-spki-list=${trusted}`,
    ])
    try {
      const context = await browser.newContext()
      const page = await context.newPage()
      await logIn(page, origin, environment.E2B_API_KEY!)
      await page.getByText(`export E2B_DOMAIN=${environment.E2B_DOMAIN}`).waitFor()
      await page.getByRole('button', { name: 'New sandbox' }).click()
      await page.getByRole('dialog').getByRole('button', { name: 'Create' }).click()
      await page.getByRole('link', { name: 'Terminal' }).click()
      await page.getByText('connected', { exact: true }).waitFor()
      const hostile = `<iframe src=${origin}/dashboard></iframe>`
      // The shell ends with the view, and the server must not.
      const serve = 'setsid -f python3 -m http.server 8000 > server.log 2>&1'
      await page.keyboard.type(`echo '${hostile}' > index.html; ${serve}; echo started-$((40 + 2))\n`)
      await page.locator('.xterm-rows').getByText('started-42').waitFor()
      await page.getByRole('link', { name: 'Overview' }).click()
      const link = (await page.getByRole('link', { name: '8000' }).getAttribute('href'))!
      assert.match(
        link,
        new RegExp(`^https://8000-\\w+\\.${environment.E2B_DOMAIN!.replaceAll('.', '\\.')}/$`),
      )
      const stranger = await context.newPage()
      await goTo(stranger, link)
      await eventually(() => assert.match(stranger.frames()[1]?.url() ?? '', /^chrome-error:/))
      assert.equal(await stranger.evaluate('sessionStorage.length + localStorage.length'), 0)
      const popup = stranger.waitForEvent('popup')
      await stranger.evaluate(`window.opened = window.open('${origin}/dashboard')`)
      await (await popup).getByLabel('API key or admin token').waitFor()
      const read =
        '(() => { try { return opened.sessionStorage.length } catch (error) { return error.name } })()'
      assert.equal(await stranger.evaluate(read), 'SecurityError')
      assert.deepEqual(await context.cookies(), [])
    } finally {
      await browser.close()
    }
  })

  for (const [version] of pythonReleases(anyIsolation, 'same')) {
    it(`Python ${version}: commands, files, links, ports, terminals`, () => {
      const commands = anyIsolation === 'container' ? '120' : '20'
      return run(...pythonCommand(version, join(programs, 'client.py')), { COMMANDS: commands })
    })
  }
})
