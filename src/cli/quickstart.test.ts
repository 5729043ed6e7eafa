import assert from 'node:assert/strict'
import { test } from 'node:test'
import { AdminClient } from './admin-client.ts'
import { quickstartCommand } from './quickstart.ts'
import { answers, asked, connect, sandbox, url as server } from './team-server-fixture.ts'
import { runSingle } from './verbs.ts'

const code = 'c'.repeat(64)
const query = `metadata=${encodeURIComponent('name=quickstart')}&state=running`

async function quickstart(url: string, ...args: string[]): Promise<string> {
  return runSingle(quickstartCommand, args, {
    program: '/opt/warren/bin/warren',
    find: async () => ({
      location: { url },
      team: await connect(),
      admin: new AdminClient({ url: server, adminToken: 'x' }),
    }),
  })
}

test('quickstart makes a sandbox for an hour, and links to its terminal without a key in the address', async () => {
  answers['GET /teams'] = [{ teamID: 'team-1' }]
  answers['POST /admin/teams/team-1/dashboard-links'] = { code, expiresAt: '2026-01-01T00:10:00.000Z' }
  const text = await quickstart('http://127.0.0.1:3000')
  assert.match(
    text,
    new RegExp(`^ {2}http://127.0.0.1:3000/dashboard/sandboxes/ione/terminal#link=${code}$`, 'm'),
  )
  assert.match(text, /ssh -L 3000:127\.0\.0\.1:3000/)
  assert.match(text, /Without a browser: \/opt\/warren\/bin\/warren sandbox shell ione/)
  const made = asked.find(({ method, path }) => method === 'POST' && path === '/sandboxes')
  assert.deepEqual(made?.body, { templateID: 'base', timeout: 3600, metadata: { name: 'quickstart' } })
})

test('a second quickstart uses the sandbox that runs, and --json gives the link to a program', async () => {
  answers[`GET /v2/sandboxes?${query}`] = [sandbox]
  const text = await quickstart('https://warren.test', '--json')
  assert.deepEqual(JSON.parse(text), {
    sandboxID: 'ione',
    link: `https://warren.test/dashboard/sandboxes/ione/terminal#link=${code}`,
    expiresAt: '2026-01-01T00:10:00.000Z',
  })
  assert.deepEqual(
    asked
      .filter(({ method, path }) => method === 'POST' && path!.startsWith('/sandboxes'))
      .map(({ path }) => path),
    ['/sandboxes/ione/timeout'],
  )
})
