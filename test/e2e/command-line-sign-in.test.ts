/** `e2b auth` of the unmodified command line, signed in through our page as a person would. */
import assert from 'node:assert/strict'
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdtemp, readFile, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, before, describe, it } from 'node:test'
import { stripVTControlCharacters } from 'node:util'
import { Sandbox } from 'e2b'
import { eventually } from '../support/eventually.ts'
import { anyIsolation, joinWarren, repoFolder, type Warren } from '../support/warren.ts'

describe('signing in the command line', () => {
  let warren: Warren
  let home: string
  before(async () => {
    warren = await joinWarren(anyIsolation)
    home = await mkdtemp(join(tmpdir(), 'warren-sign-in-'))
  })
  after(async () => {
    await warren?.stop()
    if (home) await rm(home, { recursive: true, force: true })
  })

  /** The command line with nothing but its own file to know the key from. */
  function startCommandLine(...words: string[]) {
    const { E2B_API_KEY: _, ...environment } = warren.environment
    const env = {
      ...process.env,
      ...environment,
      HOME: home,
      E2B_DOCS_BASE: warren.url,
      PATH: '/nonexistent',
    }
    const child = spawn(process.execPath, [join(repoFolder, 'node_modules/.bin/e2b'), ...words], { env })
    let printed = ''
    for (const stream of [child.stdout, child.stderr]) {
      stream.on('data', (chunk) => {
        printed += stripVTControlCharacters(String(chunk))
      })
    }
    const ended = once(child, 'close')
    return { printed: () => printed, ended }
  }

  async function run(...words: string[]): Promise<string> {
    const { printed, ended } = startCommandLine(...words)
    await ended
    return printed()
  }

  const post = (key: string, next: string, seal = '') =>
    fetch(`${warren.url}/api/cli`, {
      method: 'POST',
      body: new URLSearchParams({ key, next, seal }),
      redirect: 'manual',
    })

  it('works through the page, and then without a key in the environment', async () => {
    const login = startCommandLine('auth', 'login')
    await eventually(async () => assert.match(login.printed(), /\/api\/cli\?next=/))
    const page = new URL(/http\S+\/api\/cli\?next=\S+/.exec(login.printed())![0])
    const next = page.searchParams.get('next')!
    const shown = await fetch(page)
    const form = await shown.text()
    assert.match(form, new RegExp(`listens at <strong><code>${next}/?<`))
    assert.match(form, new RegExp(`name="next" value="${next}/?"`))
    const seal = /name="seal" value="([^"]+)"/.exec(form)![1]!
    assert.match(shown.headers.get('content-security-policy')!, /default-src 'none'.*frame-ancestors 'none'/)
    assert.equal((await post('e2b_wrong', next, seal)).status, 401)
    const answer = await post(warren.environment.E2B_API_KEY!, next, seal)
    assert.equal(answer.status, 303)
    const back = await fetch(answer.headers.get('location')!)
    assert.match(await back.text(), /Signed in/)
    await login.ended
    assert.match(login.printed(), /Logged in as .+@warren with selected project/)
    assert.match(await run('auth', 'info'), /@warren/)
    assert.match(await run('template', 'list'), /No templates found|Template ID/)
  })

  it('ends with a sign-out, which revokes the token and its key', async () => {
    const file = join(home, '.e2b/config.json')
    const { tokens, projectApiKey } = JSON.parse(await readFile(file, 'utf8'))
    const status = async (headers: Record<string, string>) =>
      (await fetch(`${warren.url}/v2/sandboxes`, { headers })).status
    const bearer = { authorization: `Bearer ${tokens.access_token}` }
    assert.deepEqual([await status(bearer), await status({ 'x-api-key': projectApiKey })], [200, 200])
    assert.match(await run('auth', 'logout'), /Logged out/)
    assert.deepEqual([await status(bearer), await status({ 'x-api-key': projectApiKey })], [401, 401])
    const refresh = await fetch(`${warren.url}/oauth/token`, {
      method: 'POST',
      body: new URLSearchParams({ grant_type: 'refresh_token', refresh_token: tokens.refresh_token }),
    })
    assert.deepEqual(
      [refresh.status, ((await refresh.json()) as { error: string }).error],
      [400, 'invalid_grant'],
    )
  })

  it('sends a token only to a port of the same machine, and never to a sandbox', async () => {
    const key = warren.environment.E2B_API_KEY!
    const sandbox = await Sandbox.create({ ...warren.client, timeoutMs: 60_000 })
    const signed = new URL(await sandbox.downloadUrl('/home/user/any', { useSignatureExpiration: 600 }))
    const { port } = new URL(warren.url)
    const onServer = [`http://localhost:${port}`, `http://127.0.0.1:${port}/`]
    const toSandbox = [
      `http://localhost:${port}/files${signed.search}`,
      `http://127.0.0.1:${port}/files${signed.search}`,
      `http://8000-${sandbox.sandboxId}.localhost:${port}/`,
    ]
    for (const next of ['http://evil.test:8000/', 'x', '', ...onServer, ...toSandbox]) {
      const answer = await post(key, next)
      assert.deepEqual([answer.status, answer.headers.get('location')], [400, null])
      const shown = await fetch(`${warren.url}/api/cli?next=${encodeURIComponent(next)}`)
      assert.equal(shown.status, 400)
    }
    await sandbox.kill()
    const markup = await fetch(`${warren.url}/api/cli?state=error&error=${encodeURIComponent('<b>x</b>')}`)
    assert.match(await markup.text(), /&lt;b&gt;x/)
  })
})
