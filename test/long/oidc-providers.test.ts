/**
 * People sign in at a Warren with real providers of OpenID Connect. Building dex takes two minutes of CPU time, and
 * src/api/people-sign-in.test.ts tries the rest against a provider that lies.
 */
import assert from 'node:assert/strict'
import { readFileSync } from 'node:fs'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { join } from 'node:path'
import { after, before, describe, it } from 'node:test'
import { buildDex, dexIssuer, signInAtDex, startDex } from '../support/dex.ts'
import { fetchKeycloak, keycloakIssuer, signInAtKeycloak, startKeycloak } from '../support/keycloak.ts'
import type { ProviderOptions } from '../support/provider-options.ts'
import { anyIsolation, noWarmPool, startWarren, type Warren } from '../support/warren.ts'

const client = { id: 'warren', secret: 'it: has+signs/and%' }
/** The lines of the page that tell Warren of its provider, as they are written there. */
function settingsOfPage(): Record<string, string> {
  const page = readFileSync(join(import.meta.dirname, '../../docs/people.md'), 'utf8')
  const lines = page.matchAll(/^export (WARREN_\w+)=(?:'([^']*)'|(.*))$/gm)
  return Object.fromEntries([...lines].map(([, name, quoted, bare]) => [name!, quoted ?? bare!]))
}

const people = [
  { email: 'ada@example.com', name: 'Ada', groups: ['developers'] },
  { email: 'bob@example.com', name: 'Bob', groups: ['platform'] },
  { email: 'eve@elsewhere.test', name: 'Eve', groups: ['developers'] },
  { email: 'new@example.com', name: 'New', groups: [] },
]

async function freePort(): Promise<number> {
  const server = createServer().listen(0, '127.0.0.1')
  await new Promise((done) => server.once('listening', done))
  const { port } = server.address() as AddressInfo
  await new Promise((done) => server.close(done))
  return port
}

type Provider = {
  /** Returns the program, which is built or downloaded once. */
  prepare(): Promise<string>
  start(program: string, options: ProviderOptions): Promise<{ stop(): Promise<void> }>
  issuer(port: number): string
  signIn(loginURL: string, email: string): Promise<string>
}

const providers: Record<string, Provider> = {
  dex: { prepare: buildDex, start: startDex, issuer: dexIssuer, signIn: signInAtDex },
  Keycloak: {
    prepare: fetchKeycloak,
    start: startKeycloak,
    issuer: keycloakIssuer,
    signIn: signInAtKeycloak,
  },
}

for (const [name, provider] of Object.entries(providers))
  describe(name, () => {
    let warren: Warren
    let running: Awaited<ReturnType<Provider['start']>>
    let restart: () => Promise<void>

    before(async () => {
      const program = await provider.prepare()
      const port = await freePort()
      const issuer = provider.issuer(port)
      const settings = {
        ...noWarmPool,
        ...settingsOfPage(),
        WARREN_OIDC_ISSUER: issuer,
        WARREN_OIDC_CLIENT_ID: client.id,
        WARREN_OIDC_CLIENT_SECRET: client.secret,
      }
      // It starts without its provider.
      warren = await startWarren(anyIsolation, { settings })
      const own = warren.url.replace('127.0.0.1', 'localhost')
      restart = async () => {
        running = await provider.start(program, {
          port,
          client,
          callbackURL: `${own}/sign-in/callback`,
          people,
        })
      }
    })

    after(async () => {
      await running?.stop()
      await warren?.stop()
    })

    const own = () => warren.url.replace('127.0.0.1', 'localhost')
    const cookieOf = (answer: Response) =>
      answer.headers
        .getSetCookie()
        .filter((cookie) => !cookie.includes('Max-Age=0'))
        .map((cookie) => cookie.split(';', 1)[0])
        .join('; ')

    async function signIn(email: string) {
      const begun = await fetch(`${own()}/sign-in`, { redirect: 'manual' })
      assert.equal(begun.status, 302, await begun.clone().text())
      const back = await provider.signIn(begun.headers.get('location')!, email)
      const answer = await fetch(back, { redirect: 'manual', headers: { cookie: cookieOf(begun) } })
      return { status: answer.status, text: await answer.text(), cookie: cookieOf(answer), back }
    }

    const ask = (cookie: string, path: string, method = 'GET') =>
      fetch(`${own()}${path}`, { method, headers: { cookie, origin: own() } })

    it('is not needed by a start, and Warren says that it does not answer', async () => {
      const answer = await fetch(`${own()}/sign-in`, { redirect: 'manual' })
      assert.equal(answer.status, 503)
      assert.match(await answer.text(), /does not answer/)
      assert.equal((await warren.api('/v2/sandboxes')).status, 200)
    })

    it('signs in people with their groups, and only those of the domain who are in a team', async () => {
      await restart()
      const ada = await signIn('ada@example.com')
      assert.equal(ada.status, 303, ada.text)
      const me = (await (await ask(ada.cookie, '/me')).json()) as {
        person: { email: string; isOperator: boolean }
        teams: { slug: string; role: string }[]
      }
      assert.deepEqual(
        [me.person.email, me.person.isOperator, me.teams.map(({ slug, role }) => `${slug} ${role}`)],
        ['ada@example.com', false, ['default member']],
      )
      const bob = await signIn('bob@example.com')
      assert.equal((await ask(bob.cookie, '/admin/teams')).status, 200)
      assert.equal((await ask(ada.cookie, '/admin/teams')).status, 401)
      assert.equal((await signIn('eve@elsewhere.test')).status, 403)
      const stranger = await signIn('new@example.com')
      assert.deepEqual([stranger.status, stranger.cookie], [403, ''])
      assert.match(stranger.text, /new@example.com, but are in no team/)
    })

    it('leaves people signed in while it is away, and after it came back with other keys', async () => {
      const ada = await signIn('ada@example.com')
      await running.stop()
      assert.equal((await ask(ada.cookie, '/v2/sandboxes')).status, 200)
      // Its keys lie in its memory: they are others now.
      await restart()
      const again = await signIn('ada@example.com')
      assert.equal(again.status, 303, again.text)
      assert.equal((await ask(ada.cookie, '/sign-out', 'POST')).status, 200)
      assert.equal((await ask(ada.cookie, '/me')).status, 401)
      assert.equal((await ask(again.cookie, '/me')).status, 200)
      const replayed = await fetch(again.back, { redirect: 'manual', headers: { cookie: again.cookie } })
      assert.equal(replayed.status, 401)
    })
  })
