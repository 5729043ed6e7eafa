/** Who is signed in at the dashboard gives the command line a token of their own. */
import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { type FakeBrowser, openSigningIn, ownOrigin } from '../../test/support/signing-in.ts'

const commandLine = 'http://localhost:43210'
const pageOf = `/api/cli?${new URLSearchParams({ next: commandLine })}`
const fieldOf = (page: string, name: string) =>
  new RegExp(`name="${name}" value="([^"]+)"`).exec(page)?.[1] ?? ''

const open = (browser: FakeBrowser) => browser.ask(pageOf, { headers: { 'sec-fetch-site': 'none' } })

const send = (browser: FakeBrowser, fields: Record<string, string>, origin = ownOrigin) =>
  browser.ask('/api/cli', {
    method: 'POST',
    headers: { 'content-type': 'application/x-www-form-urlencoded', origin },
    body: new URLSearchParams({ next: commandLine, ...fields }).toString(),
  })

describe('the sign-in of the command line, with a session', () => {
  it('makes a token of the person, with their role, that ends with their membership', async () => {
    await using world = await openSigningIn()
    const { stores, team, clock, audit } = world.app.fixture
    const browser = world.newBrowser()
    assert.match((await open(browser)).body, /sign in at the <a href="\/dashboard">/)
    await browser.signIn()
    const page = (await open(browser)).body
    assert.match(page, /Continue as ada@example\.com in team Alpha/)
    const answer = await send(browser, { seal: fieldOf(page, 'seal'), team: fieldOf(page, 'team') })
    assert.equal(answer.statusCode, 303, answer.body)
    const to = new URL(String(answer.headers.location))
    assert.equal(to.searchParams.get('email'), 'ada@example.com')
    const headers = {
      host: 'localhost:3000',
      authorization: `Bearer ${to.searchParams.get('accessToken')}`,
    }
    const ask = (method: 'GET' | 'POST', url: string) =>
      world.app.api.inject({ method, url, headers, ...(method === 'POST' && { payload: {} }) })
    assert.equal((await ask('GET', '/teams')).json()[0].teamID, team.teamID)
    assert.equal((await ask('POST', '/events/webhooks')).statusCode, 403, 'a member is no owner')
    const [key] = (await ask('GET', '/api-keys')).json()
    assert.equal(key.madeBy, 'ada@example.com')
    await audit.flush()
    const [line] = await stores.audit.list({ action: 'token.create' }, { order: 'desc', limit: 1 })
    assert.deepEqual([line?.person, line?.credential, line?.status], ['ada@example.com', 'session', 200])
    const at = clock.now()
    await stores.members.add({
      teamID: team.teamID,
      email: 'o@x.test',
      role: 'owner',
      addedBy: '',
      at,
      personID: 'o',
    })
    await stores.members.remove(team.teamID, key.createdBy.id, at)
    assert.equal((await ask('GET', '/teams')).statusCode, 401)
  })

  it('is refused from another page, without a session, and for a team of others', async () => {
    await using world = await openSigningIn()
    const browser = world.newBrowser()
    await browser.signIn()
    const page = (await open(browser)).body
    const [seal, team] = [fieldOf(page, 'seal'), fieldOf(page, 'team')]
    assert.equal((await send(browser, { seal, team: 'team-of-others' })).statusCode, 403)
    assert.equal((await send(browser, { seal, team }, 'http://evil.localhost:3000')).statusCode, 403)
    assert.equal((await send(browser, { seal: 'another', team })).statusCode, 400)
    const stranger = await send(world.newBrowser(), { seal, team })
    assert.equal(stranger.statusCode, 401)
    assert.match(stranger.body, /Your session has ended/)
  })
})
