/** A fake of the server and of the person at the command line, for tests of commands of a team. */
import { once } from 'node:events'
import http, { type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import { Readable, Writable } from 'node:stream'
import { after, beforeEach } from 'node:test'
import { ManualClock } from '../lib/clock.ts'
import { connectFrame } from '../lib/connect-frames.ts'
import type { UserTerminal } from './remote-process.ts'
import { TeamClient } from './team-client.ts'

export const sandbox = {
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
/** What the server was asked for since the test began. */
export const asked: Asked[] = []
/** What it answers; a test may change it. */
export const answers: Record<string, unknown> = {
  'GET /v2/sandboxes': [sandbox],
  'GET /v2/sandboxes?nextToken=more': [{ ...sandbox, sandboxID: 'itwo', state: 'paused' }],
  'GET /sandboxes/ione': sandbox,
  'GET /sandboxes/ithree': { ...sandbox, domain: 'x.test:1' },
  'GET /sandboxes/itwo': { ...sandbox, state: 'paused' },
  'GET /v2/sandboxes/ione/logs?limit=1000&direction=backward': { logs: [entry] },
  'POST /sandboxes/ione/pause': null,
  'POST /sandboxes/itwo/connect': { sandboxID: 'itwo' },
  'POST /sandboxes/ione/fork': [{ sandbox: { sandboxID: 'inew' } }],
  'POST /sandboxes': { sandboxID: 'ione', envdAccessToken: 'agent-token' },
  'POST /sandboxes/ione/timeout': null,
  'DELETE /sandboxes/ione': null,
  'DELETE /sandboxes/itwo': null,
  'GET /events/webhooks': [webhook],
  'POST /events/webhooks': webhook,
}
/** Paths that fail, for a test to change. */
export const failures = new Map<string, { status: number; message: string }>()
/** Streams of shells that are open, for the test to write to. */
export const shells: ServerResponse[] = []
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
  const failure = failures.get(path ?? '')
  if (failure) return response.writeHead(failure.status).end(JSON.stringify(failure))
  if (path?.startsWith('/process.Process/')) return response.writeHead(200).end('{}')
  // No sandbox has a name, unless a test gives it one.
  const isLookup = path?.startsWith('/v2/sandboxes?metadata=name')
  const given = answers[`${method} ${path}`]
  const answer = given === undefined && isLookup ? [] : given
  if (answer === undefined) return response.writeHead(404).end('{"message":"not expected"}')
  const more = path === '/v2/sandboxes' ? { 'x-next-token': 'more' } : {}
  response
    .writeHead(answer === null ? 204 : 200, more)
    .end(answer === null ? undefined : JSON.stringify(answer))
})
await once(server.listen(0, '127.0.0.1'), 'listening')
after(() => server.close())
beforeEach(() => {
  asked.length = 0
})

export const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`
export const connect = async () => new TeamClient({ url, apiKey: 'key-1' })

export function fakeTerminal() {
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

/** The person's side of a command without a terminal; `stop` stands for Ctrl-C. */
export function fakeSides(input = '', { isTTY = false } = {}) {
  const written = { output: '', errors: '', said: [] as string[] }
  const sink = (name: 'output' | 'errors') =>
    new Writable({
      write(chunk, _encoding, done) {
        written[name] += chunk
        done()
      },
    })
  const abort = new AbortController()
  const clock = new ManualClock()
  const parts = {
    clock,
    connect,
    print: () => {},
    terminal: fakeTerminal().terminal,
    input: Object.assign(Readable.from([Buffer.from(input)]), { isTTY }),
    output: sink('output'),
    errors: sink('errors'),
    listenForStop: () => ({ signal: abort.signal, exitCode: () => 130, [Symbol.dispose]: () => {} }),
    program: ['warren'],
    say: (line: string) => void written.said.push(line),
  }
  return { parts, written, clock, stop: () => abort.abort(new Error('SIGINT')) }
}

/** Waits until the server was asked for this as often. */
export async function until(path: string, count = 1): Promise<Asked[]> {
  while (asked.filter((one) => one.path === path).length < count) await new Promise(setImmediate)
  return asked.filter((one) => one.path === path)
}
