/** The commands for members, keys and the audit against the real API over a fake domain. */
import assert from 'node:assert/strict'
import { once } from 'node:events'
import http from 'node:http'
import type { AddressInfo } from 'node:net'
import { after, test } from 'node:test'
import { adminToken, openApi } from '../../test/support/api.ts'
import { ManualClock, systemClock } from '../lib/clock.ts'
import { UsageError } from './arguments.ts'
import { auditCommand } from './audit.ts'
import { endOf, keyVerbs } from './key.ts'
import { loginCommand } from './login.ts'
import { memberVerbs } from './member.ts'
import { PeopleClient } from './people-client.ts'
import { runSingle, runVerb } from './verbs.ts'

const warren = await openApi()
after(() => warren[Symbol.asyncDispose]())
const url = await warren.api.listen({ port: 0, host: '127.0.0.1' })
const asOperator = async () => new PeopleClient({ admin: { url, adminToken } })
const withKey = (apiKey: string) => async () => new PeopleClient({ team: { url, apiKey } })
const members = (...args: string[]) => runVerb(memberVerbs, args, asOperator)
const { fixture } = warren
const { clock } = fixture

test('members are added, listed, changed and removed by their address', async () => {
  assert.match(
    await members('add', 'alpha', 'Ada@example.com', '--role', 'owner'),
    /is an owner of team alpha/,
  )
  assert.match(await members('add', 'Alpha', 'bob@example.com'), /is a member of team alpha from the first/)
  assert.match(await members('list', 'alpha'), /ada@example.com +owner +by hand +invited/)
  assert.match(await members('role', 'alpha', 'bob@example.com', 'viewer'), /is viewer/)
  await assert.rejects(members('remove', 'alpha', 'ada@example.com'), /last owner/)
  assert.match(await members('remove', 'alpha', 'bob@example.com'), /no longer in team alpha/)
  await assert.rejects(members('remove', 'alpha', 'bob@example.com'), /no member has this address/)
  await assert.rejects(members('role', 'alpha', 'ada@example.com', 'king'), UsageError)
  await assert.rejects(members('add', 'alpha', 'nobody'), /no e-mail address/)
})

test('a key has a role and an end, and makes none that allows more or lasts longer', async () => {
  const args = ['create', 'alpha', '--name', 'ci', '--role', 'member', '--expires', '2030-01-31']
  const [key = ''] = (await runVerb(keyVerbs, args, asOperator)).split('\n')
  const shown = await runVerb(keyVerbs, ['list', 'alpha'], asOperator)
  assert.match(shown, /ci +e2b_\w\w…\w{4} +member +a service +2030-01-31 +never/)
  const refused = runVerb(keyVerbs, ['create', 'alpha'], withKey(key))
  await assert.rejects(refused, /key of a service makes keys only with the role owner/)
  await assert.rejects(runVerb(keyVerbs, ['list', 'other'], withKey(key)), /is of the team 'alpha'/)
  const own = JSON.parse(await runVerb(keyVerbs, ['list', 'alpha', '--json'], withKey(key)))
  assert.deepEqual(
    own.map(({ name }: { name: string }) => name),
    ['ci'],
    'a key that is no owner lists itself alone',
  )
  await assert.rejects(runVerb(keyVerbs, ['create', 'alpha', '--expires', 'soon'], asOperator), UsageError)
  assert.equal(endOf('2d', 0), '1970-01-03T00:00:00.000Z')
})

test('the audit is shown with filters, as a table or as JSON lines', async () => {
  await fixture.audit.flush()
  const show = (...args: string[]) =>
    runSingle(auditCommand, args, { connect: asOperator, clock: new ManualClock(), print: () => {} })
  const text = await show('--action', 'member.')
  assert.match(text, /^TIME +WHO +FROM +ACTION +OBJECT +ANSWER\n/)
  assert.match(text, /admin token +127\.0\.0\.1 +member\.add +\S+ +201/)
  assert.doesNotMatch(text, /key\.create/)
  const lines = (await show('--team', 'alpha', '--json')).split('\n').map((line) => JSON.parse(line))
  assert.deepEqual(lines[0].action, 'member.add', 'the newest is the last')
  assert.equal((await show('--limit', '2', '--json')).split('\n').length, 2)
  await assert.rejects(show('--since', 'yesterday'), UsageError)
})

test('login prints the variables with a key of who signed in, and nothing else', async () => {
  const said: string[] = []
  const variables = runSingle(loginCommand, [url, '--json'], {
    clock: systemClock,
    say: (line) => {
      said.push(line)
      const [page] = /http\S+/.exec(line) ?? []
      if (page) paste(page)
    },
  })
  const paste = async (page: string) => {
    const html = await (await fetch(page)).text()
    const [, seal = ''] = /name="seal" value="([^"]+)"/.exec(html) ?? []
    const next = new URL(page).searchParams.get('next')!
    const body = new URLSearchParams({ next, seal, key: warren.key })
    const answer = await fetch(new URL('/api/cli', url), { method: 'POST', body, redirect: 'manual' })
    const to = new URL(answer.headers.get('location')!)
    assert.equal((await fetch(new URL('/favicon.ico', to), { redirect: 'manual' })).status, 404)
    assert.equal((await fetch(to, { redirect: 'manual' })).status, 303)
  }
  const { E2B_API_KEY, E2B_API_URL } = JSON.parse(await variables)
  assert.equal(E2B_API_URL, url)
  assert.match(said.at(-1)!, /Signed in as alpha@warren, in the team Alpha/)
  const headers = { 'x-api-key': E2B_API_KEY }
  assert.equal((await warren.ask('GET', '/secrets', { headers })).status, 200)
  const wrong = runSingle(loginCommand, ['nowhere'], { clock: systemClock, say: () => {} })
  await assert.rejects(wrong, UsageError)
})

test('the audit is followed until somebody stops it', async () => {
  const printed: string[] = []
  const { promise: stopped, resolve: stop } = Promise.withResolvers<void>()
  const print = (line: string) => {
    printed.push(line)
    if (line.includes('secret.create')) stop()
  }
  const parts = { connect: withKey(warren.key), clock, print, stopped }
  const followed = runSingle(auditCommand, ['--follow', '--json', '--limit', '1'], parts)
  await warren.ask('POST', '/secrets', { body: { name: 'one', value: 'v' } })
  const turning = setInterval(() => clock.advance(500), 5)
  await followed
  clearInterval(turning)
  const actions = printed.map((line) => JSON.parse(line).action)
  assert.equal(actions.filter((action) => action === 'secret.create').length, 1)
})

test('the audit is followed on when the server breaks an answer off, or is away for a moment', async () => {
  const entry = {
    id: 'one',
    at: '2026-11-20T00:00:00Z',
    action: 'key.create',
    credential: 'api key',
    address: '',
  }
  let answers = 0
  const server = http.createServer((request, response) => {
    if (!request.url?.includes('follow')) return void response.end('[]')
    answers++
    if (answers === 2) return void request.destroy()
    response.write(`${JSON.stringify({ ...entry, id: `at ${answers}` })}\n`)
    if (answers === 1) setImmediate(() => response.destroy())
  })
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  const breaking = `http://127.0.0.1:${(server.address() as AddressInfo).port}`
  const printed: string[] = []
  const { promise: stopped, resolve: stop } = Promise.withResolvers<void>()
  const print = (line: string) => {
    printed.push(JSON.parse(line).id)
    if (line.includes('at 3')) stop()
  }
  const connect = async () => new PeopleClient({ admin: { url: breaking, adminToken } })
  const turning = setInterval(() => clock.advance(500), 5)
  await runSingle(auditCommand, ['--follow', '--json'], { connect, clock, print, stopped })
  clearInterval(turning)
  server.closeAllConnections()
  server.close()
  assert.deepEqual(printed, ['at 1', 'at 3'])
})
