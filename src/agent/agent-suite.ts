/** A real agent on loopback for tests, with a client that speaks the wire by hand. */
import { once } from 'node:events'
import { mkdtempSync, readdirSync, readFileSync, rmSync } from 'node:fs'
import { type IncomingMessage, request } from 'node:http'
import type { AddressInfo } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, before } from 'node:test'
import { addonFile } from '../lib/native.ts'
import type { Accounts } from './accounts.ts'
import { Identity } from './identity.ts'
import { createAgent } from './server.ts'

export const token = 'the-token'

export type Json = Record<string, unknown>
export type Frame = { flags: number; message: Json }
type TestResponse = { status: number; headers: IncomingMessage['headers']; body: Buffer; json: Json }

export class TestAgent {
  readonly folder = mkdtempSync(join(tmpdir(), 'warren-agent-'))
  readonly agent
  port = 0

  constructor(accounts?: Accounts) {
    const identity = new Identity(accounts)
    identity.apply({
      accessToken: token,
      defaultUser: 'root',
      defaultWorkdir: this.folder,
      envVars: { GLOBAL: 'yes' },
    })
    this.agent = createAgent({
      addon: addonFile()!,
      identity,
      runFolder: join(this.folder, 'run'),
      systemRoot: this.folder,
      sshCommand: () => [process.execPath, join(import.meta.dirname, 'ssh/main.ts'), addonFile()!],
    })
  }

  async start(): Promise<void> {
    this.agent.server.listen(0, '127.0.0.1')
    await once(this.agent.server, 'listening')
    this.port = (this.agent.server.address() as AddressInfo).port
  }

  async stop(): Promise<void> {
    const { processes, watchers } = await this.agent.services()
    watchers.close()
    for (const process of processes.table.running()) process.signal('SIGKILL')
    this.agent.server.closeAllConnections()
    this.agent.server.close()
    rmSync(this.folder, { recursive: true, force: true })
  }

  /** Sends a request and returns the answer as soon as its head has arrived. */
  async open(
    method: string,
    path: string,
    headers: Record<string, string> = {},
    body?: Buffer | string | AsyncIterable<Buffer>,
  ): Promise<IncomingMessage> {
    const outgoing = request({ host: '127.0.0.1', port: this.port, method, path, headers, agent: false })
    const response = once(outgoing, 'response') as Promise<[IncomingMessage]>
    response.catch(() => {})
    if (body !== undefined && typeof body !== 'string' && !Buffer.isBuffer(body)) {
      for await (const chunk of body) outgoing.write(chunk)
      outgoing.end()
    } else outgoing.end(body)
    return (await response)[0]
  }

  async fetch(
    method: string,
    path: string,
    headers: Record<string, string> = {},
    body?: Buffer | string | AsyncIterable<Buffer>,
  ): Promise<TestResponse> {
    const response = await this.open(method, path, { 'x-access-token': token, ...headers }, body)
    const bytes = Buffer.concat(await collect(response as AsyncIterable<Buffer>))
    let json: Json = {}
    try {
      json = JSON.parse(bytes.toString())
    } catch {}
    return { status: response.statusCode!, headers: response.headers, body: bytes, json }
  }

  unary(method: string, message: Json, headers: Record<string, string> = {}): Promise<TestResponse> {
    const defaults = { 'content-type': 'application/json', 'connect-protocol-version': '1' }
    return this.fetch('POST', `/${method}`, { ...defaults, ...headers }, JSON.stringify(message))
  }

  async *stream(method: string, message: Json, headers: Record<string, string> = {}): AsyncGenerator<Frame> {
    const response = await this.open(
      'POST',
      `/${method}`,
      { 'content-type': 'application/connect+json', 'x-access-token': token, ...headers },
      envelope(message),
    )
    yield* frames(response)
  }

  /** Runs a shell command to its end and collects its output. */
  async run(command: string, { user = '', headers = {}, request: more = {} }: RunOptions = {}) {
    const auth: Record<string, string> = user
      ? { authorization: `Basic ${Buffer.from(`${user}:`).toString('base64')}` }
      : {}
    const config = { cmd: '/bin/sh', args: ['-c', command], ...(more.process as Json | undefined) }
    const result = new RunResult()
    const start = { stdin: false, ...more, process: config }
    for await (const frame of this.stream('process.Process/Start', start, { ...auth, ...headers }))
      result.accept(frame)
    return result
  }
}

type RunOptions = { user?: string; headers?: Record<string, string>; request?: Json }

class RunResult {
  stdout = ''
  stderr = ''
  pid: number | undefined
  end: Json | undefined
  error: Json | undefined
  kinds: string[] = []

  accept({ flags, message }: Frame): void {
    if (flags === 2) {
      this.error = message.error as Json | undefined
      this.kinds.push('eos')
      return
    }
    const event = message.event as Record<string, Json>
    this.kinds.push(Object.keys(event)[0]!)
    if (event.start) this.pid = event.start.pid as number
    if (event.end) this.end = event.end
    this.stdout += decode(event.data?.stdout)
    this.stderr += decode(event.data?.stderr)
  }
}

export function decode(base64: unknown): string {
  return Buffer.from((base64 as string | undefined) ?? '', 'base64').toString()
}

export function envelope(message: Json, flags = 0): Buffer {
  const payload = Buffer.from(JSON.stringify(message))
  const head = Buffer.alloc(5)
  head.writeUInt8(flags, 0)
  head.writeUInt32BE(payload.length, 1)
  return Buffer.concat([head, payload])
}

export async function* frames(response: AsyncIterable<Buffer>): AsyncGenerator<Frame> {
  let buffered = Buffer.alloc(0)
  for await (const chunk of response) {
    buffered = Buffer.concat([buffered, chunk])
    while (buffered.length >= 5 && buffered.length >= 5 + buffered.readUInt32BE(1)) {
      const end = 5 + buffered.readUInt32BE(1)
      yield { flags: buffered.readUInt8(0), message: JSON.parse(buffered.subarray(5, end).toString()) }
      buffered = buffered.subarray(end)
    }
  }
}

export async function collect<T>(items: AsyncIterable<T>): Promise<T[]> {
  const all: T[] = []
  for await (const item of items) all.push(item)
  return all
}

/** Processes of a group that still run; a zombie does not count. */
export function livingMembers(group: number): string[] {
  return readdirSync('/proc')
    .filter((name) => /^\d+$/.test(name))
    .filter((pid) => {
      try {
        const [state, , member] = readFileSync(`/proc/${pid}/stat`, 'utf8').split(') ').at(-1)!.split(' ')
        return Number(member) === group && state !== 'Z'
      } catch {
        return false
      }
    })
}

export const start = 'process.Process/Start'

export function shell(command: string, more: Json = {}): Json {
  return { process: { cmd: '/bin/sh', args: ['-c', command] }, stdin: false, ...more }
}

/** Starts a process and reads up to its start event; the returned stream yields the rest. */
export async function begin(agent: TestAgent, message: Json, headers: Record<string, string> = {}) {
  const stream = agent.stream(start, message, headers)
  const first = (await stream.next()).value as Frame
  const pid = ((first.message.event as Json).start as Json).pid as number
  return { pid, stream }
}

export async function endOf(stream: AsyncIterable<Frame>): Promise<Json | undefined> {
  for await (const { message } of stream) {
    const end = (message.event as Json | undefined)?.end
    if (end) return end as Json
  }
  return undefined
}

/** One agent for all tests of a file. */
export function useAgent(accounts?: Accounts): TestAgent {
  const agent = new TestAgent(accounts)
  before(() => agent.start())
  after(() => agent.stop())
  return agent
}
