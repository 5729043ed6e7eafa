/** People sign in with a provider: what works, and what attackers try. */
import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { openApi } from '../../test/support/api.ts'
import { openSigningIn, ownOrigin } from '../../test/support/signing-in.ts'

describe('signing in with a provider', () => {
  it('ends in a session that shows the person, the team and the role, and lets them work', async () => {
    await using world = await openSigningIn()
    const browser = world.newBrowser()
    const answer = await browser.signIn('/dashboard/templates?team=x')
    assert.equal(answer.headers.location, '/dashboard/templates?team=x')
    const [cookie] = answer.cookies.filter(({ name }) => name === 'warren-session')
    assert.deepEqual([cookie?.httpOnly, cookie?.sameSite, cookie?.path], [true, 'Strict', '/'])
    const { person, teams } = (await browser.ask('/me')).json()
    assert.deepEqual([person.name, person.email, person.isOperator], ['Ada', 'ada@example.com', false])
    assert.deepEqual(
      teams.map(({ slug, role }: Record<string, string>) => [slug, role]),
      [['alpha', 'member']],
    )
    const body = { templateID: 'base' }
    assert.equal((await browser.ask('/sandboxes', { method: 'POST', body })).statusCode, 201)
    assert.equal((await browser.ask('/admin/teams')).statusCode, 401)
  })

  it('sends nothing to the provider and sets no cookie where no provider is set', async () => {
    await using app = await openApi()
    const answer = await app.api.inject({ url: '/sign-in' })
    assert.deepEqual([answer.statusCode, answer.cookies], [404, []])
    assert.equal((await app.api.inject({ url: '/sign-in/callback?code=1&state=2' })).statusCode, 404)
    assert.doesNotMatch((await app.ask('GET', '/dashboard')).body, /warren-sign-in/)
    const cookie = `warren-session=wrs_${'0'.repeat(64)}`
    assert.equal((await app.api.inject({ url: '/sandboxes', headers: { cookie } })).statusCode, 401)
  })

  it('works without a start or a session waiting for the provider, and says when it does not answer', async () => {
    await using world = await openSigningIn()
    assert.deepEqual(world.provider.requests, [])
    const browser = world.newBrowser()
    await browser.signIn()
    world.provider.isBroken = true
    world.app.fixture.clock.advance(10 * 60_000)
    const answer = await world.newBrowser().visit('/sign-in')
    assert.equal(answer.statusCode, 503)
    assert.match(answer.body, /provider http:\/\/127.0.0.1:\d+ does not answer/)
    assert.equal((await browser.ask('/sandboxes')).statusCode, 200)
    assert.equal((await world.app.ask('GET', '/admin/teams', world.app.asAdmin)).status, 200)
  })

  it('asks the userinfo endpoint for what the ID token lacks, and believes no address that is not verified', async () => {
    await using world = await openSigningIn()
    const nameOf = async () => {
      const browser = world.newBrowser()
      await browser.signIn()
      const { person, teams } = (await browser.ask('/me')).json()
      return [person.name, person.email, teams.length]
    }
    world.provider.claims = {}
    world.provider.userinfo = {
      name: 'Ada L',
      email: 'ADA@example.com',
      email_verified: true,
      groups: ['developers'],
    }
    assert.deepEqual(await nameOf(), ['Ada L', 'ada@example.com', 1])
    // Verified is another address than the one in the token.
    world.provider.claims = { email: 'root@example.com', groups: ['developers'] }
    assert.deepEqual(await nameOf(), ['Ada L', null, 1])
    world.provider.claims = { email: 'ada@example.com', email_verified: false, groups: ['developers'] }
    assert.deepEqual(await nameOf(), ['Ada L', null, 1])
  })

  it('admits only verified addresses of the domains, if there are any, and nobody without a team', async () => {
    await using world = await openSigningIn({ WARREN_OIDC_DOMAINS: 'example.com' })
    const status = async (claims: object) => {
      const browser = world.newBrowser()
      world.provider.claims = { groups: ['developers'], ...claims }
      const answer = await browser.visit(await browser.begin())
      assert.equal(browser.session !== undefined, answer.statusCode === 303)
      return answer.statusCode
    }
    assert.equal(await status({ email: 'ada@example.com', email_verified: true }), 303)
    assert.equal(await status({ email: 'ada@example.com', email_verified: true, groups: ['others'] }), 403)
    const emails = [
      'ada@evil.test',
      'ada@sub.example.com',
      'ada@example.com@evil.test',
      '"a b"@example.com',
      7,
    ]
    for (const email of emails)
      assert.equal(await status({ email, email_verified: true }), 403, String(email))
    assert.equal(await status({ email: 'ada@example.com' }), 403)
  })

  it('is begun, finished and ended at any Warren of a cluster, and repeated at none', async () => {
    await using world = await openSigningIn()
    await using neighbour = await world.openNeighbour()
    world.provider.isForgetful = true
    const browser = world.newBrowser()
    const callback = await browser.begin()
    const cookies = new Map(browser.cookies)
    browser.api = neighbour.api
    assert.equal((await browser.visit(callback)).statusCode, 303)
    browser.api = world.app.api
    assert.equal((await browser.ask('/sandboxes')).statusCode, 200)
    const again = world.newBrowser()
    for (const [name, value] of cookies) again.cookies.set(name, value)
    assert.equal((await again.visit(callback)).statusCode, 401)
    const copied = world.newBrowser()
    copied.cookies.set('warren-session', browser.session!)
    assert.equal((await browser.ask('/sign-out', { method: 'POST' })).statusCode, 200)
    copied.api = neighbour.api
    assert.equal((await copied.ask('/sandboxes')).statusCode, 401)
  })

  it('reads roles for every request, and groups at every sign-in', async () => {
    await using world = await openSigningIn({
      WARREN_OIDC_GROUPS: 'developers=alpha:viewer;leads=alpha:owner;platform=operator;*=second:member',
    })
    const second = await world.app.teams.createTeam('second')
    const browser = world.newBrowser()
    await browser.signIn()
    const roles = async () =>
      (await browser.ask('/me'))
        .json()
        .teams.map(({ slug, role }: Record<string, string>) => `${slug} ${role}`)
    assert.deepEqual((await roles()).toSorted(), ['alpha viewer', 'second member'])
    // The team is in each request, so two tabs can look at two teams.
    const inTeam = (team: string) => browser.ask('/sandboxes', { headers: { 'x-team-id': team } })
    assert.deepEqual([(await inTeam('alpha')).statusCode, (await inTeam('second')).statusCode], [200, 200])
    assert.equal((await browser.ask('/sandboxes')).statusCode, 400)
    world.provider.claims = { groups: ['leads', 'platform'] }
    await world.newBrowser().signIn()
    assert.deepEqual((await roles()).toSorted(), ['alpha owner', 'second owner'])
    assert.equal((await browser.ask('/admin/teams')).statusCode, 200)
    world.provider.claims = { groups: [] }
    await world.newBrowser().signIn()
    assert.deepEqual(await roles(), ['second member'])
    assert.equal((await browser.ask('/admin/teams')).statusCode, 401)
    assert.equal((await inTeam('alpha')).statusCode, 403)
    const { personID } = (await browser.ask('/me')).json().person
    await world.app.fixture.stores.members.remove(second.teamID, personID, 1)
    assert.equal((await inTeam('second')).statusCode, 403)
  })
})

describe('a provider or a stranger who lies', () => {
  it('is rejected: issuer, audience, time, nonce, signature and algorithm of the ID token must be right', async () => {
    await using world = await openSigningIn()
    const { provider } = world
    const now = Math.floor(Date.now() / 1000)
    const lies: [what: string, () => void][] = [
      ['another issuer', () => (provider.claims = { iss: 'https://evil.test' })],
      ['another audience', () => (provider.claims = { aud: 'another' })],
      ['several audiences', () => (provider.claims = { aud: ['warren', 'another'], azp: 'another' })],
      ['expired', () => (provider.claims = { iat: now - 900, exp: now - 90 })],
      ['without an end', () => (provider.claims = { exp: undefined })],
      ['another nonce', () => (provider.claims = { nonce: 'another' })],
      ['no nonce', () => (provider.claims = { nonce: undefined })],
      ['no subject', () => (provider.claims = { sub: undefined })],
      ['none', () => (provider.mint = provider.unsigned)],
      ['HS256 with the public key', () => (provider.mint = provider.signedWithPublicKey)],
      ['a stranger', () => (provider.mint = provider.signedByStranger)],
      ['no token', () => (provider.mint = () => '')],
    ]
    const { claims, mint } = provider
    for (const [what, lie] of lies) {
      Object.assign(provider, { claims, mint })
      lie()
      const browser = world.newBrowser()
      const answer = await browser.visit(await browser.begin())
      assert.deepEqual([answer.statusCode, browser.session], [401, undefined], what)
    }
    Object.assign(provider, { claims, mint })
    await world.newBrowser().signIn()
  })

  it('is believed if its clock differs by a minute, and after it changed its keys', async () => {
    await using world = await openSigningIn()
    const now = Math.floor(Date.now() / 1000)
    world.provider.claims = { ...world.provider.claims, iat: now + 50, exp: now - 50 }
    await world.newBrowser().signIn()
    world.provider.rotateKeys()
    await world.newBrowser().signIn()
  })

  it('names itself in the answer, and another name is rejected', async () => {
    await using world = await openSigningIn()
    world.provider.metadata = { authorization_response_iss_parameter_supported: true }
    const browser = world.newBrowser()
    for (const iss of ['', '&iss=https%3A%2F%2Fevil.test']) {
      assert.equal((await browser.visit((await browser.begin()) + iss)).statusCode, 401, iss)
    }
    const iss = `&iss=${encodeURIComponent(world.provider.issuer)}`
    assert.equal((await browser.visit((await browser.begin()) + iss)).statusCode, 303)
  })

  it('says why it signs nobody in, and its words become no markup', async () => {
    await using world = await openSigningIn()
    const browser = world.newBrowser()
    const state = new URLSearchParams((await browser.begin()).split('?')[1]).get('state')!
    const error = '<script>alert(1)</script>'
    const answer = await browser.visit(`/sign-in/callback?${new URLSearchParams({ error, state })}`)
    assert.equal(answer.statusCode, 401)
    assert.doesNotMatch(answer.body, /<script/)
  })

  it('gets no second session out of one sign-in', async () => {
    await using world = await openSigningIn()
    world.provider.isForgetful = true
    const browser = world.newBrowser()
    const callback = await browser.begin()
    const cookies = new Map(browser.cookies)
    assert.equal((await browser.visit(callback)).statusCode, 303)
    const again = world.newBrowser()
    for (const [name, value] of cookies) again.cookies.set(name, value)
    assert.deepEqual([(await again.visit(callback)).statusCode, again.session], [401, undefined])
    // Nor after the first has ended.
    await browser.ask('/sign-out', { method: 'POST' })
    for (const [name, value] of cookies) again.cookies.set(name, value)
    assert.deepEqual([(await again.visit(callback)).statusCode, again.session], [401, undefined])
  })

  it('cannot make another browser finish a sign-in, or finish it late', async () => {
    await using world = await openSigningIn()
    const attacker = world.newBrowser()
    const victim = world.newBrowser()
    const callback = await attacker.begin()
    // Login CSRF: the victim would work in the attacker's account.
    assert.equal((await victim.visit(callback)).statusCode, 401)
    await victim.begin()
    assert.deepEqual([(await victim.visit(callback)).statusCode, victim.session], [401, undefined])
    for (const query of ['', '?code=code0', '?state=x&code=code0']) {
      assert.equal((await attacker.visit(`/sign-in/callback${query}`)).statusCode, 401, query)
    }
    const late = world.newBrowser()
    const lateCallback = await late.begin()
    world.app.fixture.clock.advance(15 * 60_000)
    assert.equal((await late.visit(lateCallback)).statusCode, 401)
  })

  it('cannot leave this server by the way back', async () => {
    await using world = await openSigningIn()
    const elsewhere = [
      ...['https://evil.test', '//evil.test', '/\\evil.test', '/dashboard\\@evil.test', '/sign-out', '/'],
      ...[
        '/dashboard/../admin/teams',
        '/dashboardx',
        '/dashboard/%2e%2e/files',
        '\t//evil.test',
        '/dashboard\n//x',
      ],
      ...['javascript:alert(1)', '/dashboard/ä'],
    ]
    for (const next of elsewhere) {
      const browser = world.newBrowser()
      assert.equal((await browser.signIn(next)).headers.location, '/dashboard', next)
    }
    const answer = await world.app.api.inject({ url: '/sign-in?return=//x', headers: { host: 'evil.test' } })
    assert.match(String(answer.headers.location), /^http:\/\/localhost:3000\/sign-in\?/)
    assert.deepEqual(answer.cookies, [])
  })
})

describe('a session', () => {
  it('works only from pages of the dashboard', async () => {
    await using world = await openSigningIn()
    const browser = world.newBrowser()
    await browser.signIn()
    const foreign: Record<string, string>[] = [
      { origin: 'https://evil.test' },
      { origin: 'null' },
      { origin: 'http://8000-abc.localhost:3000', 'sec-fetch-site': 'same-site' },
      { 'sec-fetch-site': 'cross-site' },
      { 'sec-fetch-site': 'none' },
    ]
    const body = { templateID: 'base' }
    for (const headers of foreign) {
      const answer = await browser.ask('/sandboxes', { method: 'POST', headers, body })
      assert.equal(answer.statusCode, 403, JSON.stringify(headers))
    }
    assert.equal((await browser.visit('/sandboxes')).statusCode, 403)
    // A program with a stolen cookie that says nothing of a page.
    const cookie = `warren-session=${browser.session}`
    const bare = (method: 'GET' | 'POST') =>
      world.app.api.inject({ method, url: '/sandboxes', headers: { cookie, host: 'localhost:3000' } })
    assert.equal((await bare('POST')).statusCode, 403)
    assert.equal((await bare('GET')).statusCode, 200)
  })

  it('is new after each sign-in, and one that somebody else chose is never taken', async () => {
    await using world = await openSigningIn()
    const browser = world.newBrowser()
    const chosen = `wrs_${'a'.repeat(64)}`
    browser.cookies.set('warren-session', chosen)
    await browser.signIn()
    const first = browser.session
    assert.notEqual(first, chosen)
    await browser.signIn()
    assert.notEqual(browser.session, first)
    const attacker = world.newBrowser()
    attacker.cookies.set('warren-session', chosen)
    assert.equal((await attacker.ask('/me')).statusCode, 401)
    // Two cookies of one name: somebody else may have set one of them.
    const both = `warren-session=${browser.session}; warren-session=${chosen}`
    assert.equal((await world.newBrowser().ask('/me', { headers: { cookie: both } })).statusCode, 401)
  })

  it('ends after a time without use, after a longer time in any case, and with its person', async () => {
    await using world = await openSigningIn({ WARREN_SESSION_IDLE_MINUTES: '10', WARREN_SESSION_HOURS: '1' })
    const { clock } = world.app.fixture
    const browser = world.newBrowser()
    const status = async () => (await browser.ask('/me')).statusCode
    await browser.signIn()
    clock.advance(9 * 60_000)
    assert.equal(await status(), 200)
    clock.advance(10 * 60_000)
    assert.equal(await status(), 401)
    await browser.signIn()
    for (let minutes = 9; minutes < 60; minutes += 9) {
      assert.equal(await status(), 200)
      clock.advance(9 * 60_000)
    }
    clock.advance(6 * 60_000)
    assert.equal(await status(), 401)
  })

  it('is listed and ended by its person, an owner of the team and an operator, and by nobody else', async () => {
    await using world = await openSigningIn({
      WARREN_OIDC_GROUPS: 'developers=alpha:member;leads=alpha:owner;strangers=second:owner',
    })
    await world.app.teams.createTeam('second')
    const person = async (sub: string, group: string) => {
      const browser = world.newBrowser()
      world.provider.claims = { sub, name: sub, groups: [group] }
      await browser.signIn()
      return browser
    }
    const ada = await person('ada', 'developers')
    const bob = await person('bob', 'developers')
    const lead = await person('lead', 'leads')
    const stranger = await person('stranger', 'strangers')
    await person('ada', 'developers')
    const { personID } = (await ada.ask('/me')).json().person
    const listed = (await ada.ask('/sessions')).json()
    assert.equal(listed.length, 2)
    assert.equal(listed.filter((one: { isCurrent: boolean }) => one.isCurrent).length, 1)
    assert.doesNotMatch(JSON.stringify(listed), /wrs_/)
    const { sessionID } = listed.find((one: { isCurrent: boolean }) => !one.isCurrent)
    const theirs = `?personID=${personID}`
    for (const other of [bob, stranger]) {
      assert.equal((await other.ask(`/sessions${theirs}`)).statusCode, 403)
      assert.equal((await other.ask(`/sessions${theirs}`, { method: 'DELETE' })).statusCode, 403)
      assert.equal((await other.ask(`/sessions/${sessionID}`, { method: 'DELETE' })).statusCode, 404)
    }
    assert.equal((await ada.ask(`/sessions/${sessionID}`, { method: 'DELETE' })).statusCode, 204)
    assert.equal((await lead.ask(`/sessions${theirs}`)).json().length, 1)
    assert.equal((await lead.ask(`/sessions${theirs}`, { method: 'DELETE' })).statusCode, 204)
    assert.equal((await ada.ask('/me')).statusCode, 401)
    assert.equal((await bob.ask('/me')).statusCode, 200)
  })

  it('ends when its person signs out, who may be sent to sign out at the provider too', async () => {
    await using world = await openSigningIn()
    world.provider.metadata = { end_session_endpoint: `${world.provider.issuer}/logout` }
    const browser = world.newBrowser()
    await browser.signIn()
    const before = browser.session!
    const { location } = (await browser.ask('/sign-out', { method: 'POST' })).json()
    const asked = new URL(location)
    assert.equal(asked.searchParams.get('post_logout_redirect_uri'), `${ownOrigin}/dashboard`)
    assert.match(asked.searchParams.get('id_token_hint') ?? '', /^[\w-]+\.[\w-]+\.[\w-]+$/)
    assert.equal(browser.session, undefined)
    browser.cookies.set('warren-session', before)
    assert.equal((await browser.ask('/me')).statusCode, 401)
    // A provider that does not answer keeps nobody signed in here.
    await browser.signIn()
    world.provider.isBroken = true
    world.app.fixture.clock.advance(6 * 60_000)
    const answer = await browser.ask('/sign-out', { method: 'POST' })
    assert.deepEqual([answer.statusCode, answer.json()], [200, {}])
  })
})
