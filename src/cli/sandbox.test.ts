import assert from 'node:assert/strict'
import { once } from 'node:events'
import http, { type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import { after, beforeEach, test } from 'node:test'
import { connectFrame } from '../lib/connect-frames.ts'
import { UsageError } from './arguments.ts'
import { completionCommand } from './completion.ts'
import { duration, painter } from './output.ts'
import { sandboxVerbs } from './sandbox.ts'
import type { UserTerminal } from './shell.ts'
import { TeamClient } from './team-client.ts'
import { runVerb } from './verbs.ts'
import { webhookVerbs } from './webhook.ts'

const sandbox = {
  templateID: 't1',
  sandboxID: 'ione',
  clientID: '',
  startedAt: '2026-01-02T03:04:05.000Z',
  endAt: '2099-01-02T03:04:05.000Z',
  cpuCount: 2,
  memoryMB: 512,
  diskSizeMB: 1024,
  state: 'running',
  envdVersion: '0.6.13',
  alias: 'base',
  metadata: { who: 'me\x1b[2J' },
  envdAccessToken: 'agent-token',
}
const entry = { timestamp: '2026-01-02T03:04:05.000Z', message: 'hello\x1b[2J', level: 'info', fields: {} }
const webhook = {
  id: 'w1',
  teamID: 't',
  name: 'mine',
  url: 'https://x.test/',
  enabled: true,
  createdAt: '',
  events: ['sandbox.lifecycle.created'],
  failingSince: null,
  lastError: null,
}

type Asked = { method: string | undefined; path: string | undefined; key: unknown; body: unknown }
let asked: Asked[] = []
const answers: Record<string, unknown> = {
  'GET /v2/sandboxes': [sandbox],
  'GET /v2/sandboxes?nextToken=more': [{ ...sandbox, sandboxID: 'itwo', state: 'paused' }],
  'GET /sandboxes/ione': sandbox,
  'GET /sandboxes/itwo': { ...sandbox, state: 'paused' },
  'GET /v2/sandboxes/ione/logs?limit=1000&direction=backward': { logs: [entry] },
  'POST /sandboxes/ione/pause': null,
  'POST /sandboxes/itwo/connect': { sandboxID: 'itwo' },
  'POST /sandboxes/ione/fork': [{ sandbox: { sandboxID: 'inew' } }],
  'DELETE /sandboxes/ione': null,
  'DELETE /sandboxes/itwo': null,
  'GET /events/webhooks': [webhook],
  'POST /events/webhooks': webhook,
}
/** Streams of shells that are open, for the test to write to. */
const shells: ServerResponse[] = []
const server = http.createServer(async (request, response) => {
  const chunks: Buffer[] = []
  for await (const chunk of request) chunks.push(chunk)
  const { method, url: path, headers } = request
  const bytes = Buffer.concat(chunks)
  const text = headers['content-type'] === 'application/connect+json' ? bytes.subarray(5) : bytes
  asked.push({
    method,
    path,
    key: headers['x-api-key'],
    body: text.length > 0 ? JSON.parse(`${text}`) : null,
  })
  if (path === '/process.Process/Start') {
    shells.push(response)
    response.writeHead(200, { 'content-type': 'application/connect+json' })
    response.write(connectFrame({ event: { start: { pid: 7 } } }))
    return
  }
  if (path?.startsWith('/process.Process/')) return response.writeHead(200).end('{}')
  const answer = answers[`${method} ${path}`]
  if (answer === undefined) return response.writeHead(404).end('{"message":"not expected"}')
  const more = path === '/v2/sandboxes' ? { 'x-next-token': 'more' } : {}
  response
    .writeHead(answer === null ? 204 : 200, more)
    .end(answer === null ? undefined : JSON.stringify(answer))
})
await once(server.listen(0, '127.0.0.1'), 'listening')
after(() => server.close())
beforeEach(() => {
  asked = []
})

const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`
const connect = async () => new TeamClient({ url, apiKey: 'key-1' })

function fakeTerminal() {
  const written: string[] = []
  let type = (_keys: Buffer) => {}
  let isGivenBack = false
  let resize = () => {}
  const terminal: UserTerminal = {
    isTerminal: false,
    size: () => ({ cols: 100, rows: 30 }),
    onResize: (listener) => {
      resize = listener
    },
    takeKeys: (listener) => {
      type = listener
      return () => {
        isGivenBack = true
      }
    },
    write: (data) => void written.push(data.toString()),
  }
  return {
    terminal,
    written,
    type: (text: string) => type(Buffer.from(text)),
    resize: () => resize(),
    isGivenBack: () => isGivenBack,
  }
}

const run = (...args: string[]) =>
  runVerb(sandboxVerbs, args, { connect, print: () => {}, terminal: fakeTerminal().terminal })

test('list shows every page as a table to people and as JSON to programs', async () => {
  const shown = String(await run('list'))
  assert.match(shown, /^SANDBOX +TEMPLATE +STATE .*\nione +base +running +2 +512 MiB .+\nitwo +base +paused /)
  assert.ok(!shown.includes('\x1b'), 'what metadata holds must not reach the terminal')
  assert.deepEqual(
    JSON.parse(String(await run('list', '--json'))).map((one: typeof sandbox) => one.sandboxID),
    ['ione', 'itwo'],
  )
  assert.equal(asked[0]?.key, 'key-1')
})

test('info, logs, pause, resume, fork and kill send the matching requests', async () => {
  assert.match(String(await run('info', 'ione')), /state +running\n[\s\S]*metadata who +me\n?/)
  assert.equal(await run('logs', 'ione'), '2026-01-02T03:04:05.000Z  info   hello')
  await run('pause', 'ione', '--no-memory')
  assert.deepEqual(asked.at(-1)?.body, { memory: false })
  await run('resume', 'itwo', '--timeout', '60')
  assert.deepEqual(asked.at(-1)?.body, { timeout: 60 })
  assert.equal(await run('fork', 'ione', '--count', '1'), 'inew')
  assert.match(String(await run('kill', 'ione', 'itwo')), /ione is killed\.\n.*itwo is killed\./)
  await run('kill', '--all')
  assert.deepEqual(
    asked.slice(-2).map(({ method, path }) => `${method} ${path}`),
    ['DELETE /sandboxes/ione', 'DELETE /sandboxes/itwo'],
  )
})

test('a shell shows the output of the sandbox, sends keys in their order, and ends with its exit code', async () => {
  const { terminal, written, type, resize, isGivenBack } = fakeTerminal()
  const code = runVerb(sandboxVerbs, ['shell', 'ione', '--user', 'root', '--cwd', '/tmp'], {
    connect,
    print: () => {},
    terminal,
  })
  const until = async (path: string, count = 1) => {
    while (asked.filter((one) => one.path === path).length < count) await new Promise(setImmediate)
    return asked.filter((one) => one.path === path)
  }
  const [start] = await until('/process.Process/Start')
  assert.deepEqual(start?.body, {
    process: { cmd: '/bin/bash', args: ['-i', '-l'], envs: { TERM: 'xterm-256color' }, cwd: '/tmp' },
    pty: { size: { cols: 100, rows: 30 } },
  })
  const shell = shells.shift()!
  shell.write(connectFrame({ event: { data: { pty: Buffer.from('$ ').toString('base64') } } }))
  while (written.length === 0) await new Promise(setImmediate)
  type('l')
  type('s\r')
  const sent = await until('/process.Process/SendInput', 2)
  const keys = sent.map(({ body }) => (body as { input: { pty: string } }).input.pty)
  assert.equal(keys.map((one) => Buffer.from(one, 'base64').toString()).join(''), 'ls\r')
  resize()
  assert.deepEqual((await until('/process.Process/Update'))[0]?.body, {
    process: { pid: 7 },
    pty: { size: { cols: 100, rows: 30 } },
  })
  shell.end(connectFrame({ event: { end: { exitCode: 3, exited: true } } }))
  assert.equal(await code, 3)
  assert.ok(isGivenBack())
  assert.deepEqual(written, ['$ '])
})

test('a shell that breaks off is reported, and a paused sandbox gets no shell', async () => {
  const code = run('shell', 'ione')
  while (shells.length === 0) await new Promise(setImmediate)
  shells.shift()!.end()
  await assert.rejects(code, /broke off/)
  await assert.rejects(run('shell', 'itwo'), /is paused\. Run `warren sandbox resume itwo` first/)
})

test('a malformed command is rejected before anything is sent', async () => {
  const wrong = [
    [],
    ['nix'],
    ['info'],
    ['info', 'a', 'b'],
    ['kill'],
    ['kill', 'a', '--all'],
    ['fork', 'a', '--count', '0'],
    ['shell', 'a', '--json'],
    ['list', '--follow'],
  ]
  for (const args of wrong) await assert.rejects(run(...args), UsageError, args.join(' '))
  assert.deepEqual(asked, [])
  assert.match(String(await run('--help')), /warren sandbox shell SANDBOX/)
})

test('webhooks are listed and made, all events unless some are named', async () => {
  assert.match(
    await runVerb(webhookVerbs, ['list'], connect),
    /w1 +mine +https:\/\/x\.test\/ +created +works/,
  )
  const args = ['create', 'mine', 'https://x.test/', '--secret', 's']
  await runVerb(webhookVerbs, [...args, '--event', 'killed'], connect)
  const one = asked.at(-1)?.body as { events: string[] }
  assert.deepEqual(one.events, ['sandbox.lifecycle.killed'])
  await runVerb(webhookVerbs, args, connect)
  assert.equal((asked.at(-1)!.body as { events: string[] }).events.length, 6)
  await assert.rejects(runVerb(webhookVerbs, [...args, '--event', 'born'], connect), UsageError)
  await assert.rejects(runVerb(webhookVerbs, ['create', 'mine', 'https://x.test/'], connect), /--secret/)
})

test('shells complete exactly the existing commands', async () => {
  const entries = [
    {
      name: 'sandbox',
      use: 'sandbox VERB',
      does: "a team's sandboxes",
      verbs: { list: ['state'], kill: ['all'] },
    },
    { name: 'env', use: 'env', does: 'variables' },
  ]
  for (const shell of ['bash', 'zsh', 'fish']) {
    const script = await completionCommand([shell], entries)
    assert.match(script, /list kill/)
    assert.match(script, /env/)
    assert.match(script, shell === 'fish' ? /from kill' -l all$/m : /sandbox kill.*--all/)
  }
  await assert.rejects(completionCommand(['csh'], entries), UsageError)
})

test('colours are for terminals only, and times have one unit', () => {
  assert.equal(painter(false)('x', 'red'), 'x')
  assert.equal(painter(true)('x', 'red'), '\x1b[31mx\x1b[0m')
  assert.deepEqual([45_000, 300_000, 10_000_000, 300_000_000].map(duration), [
    '45 s',
    '5 min',
    '3 h',
    '3 days',
  ])
})
