import assert from 'node:assert/strict'
import { once } from 'node:events'
import { readFileSync, writeFileSync } from 'node:fs'
import { request } from 'node:http'
import { connect as connectTo, createServer, type Socket } from 'node:net'
import { join } from 'node:path'
import { after, before, suite, test } from 'node:test'
import ssh2, { type Client, type ClientChannel, type SFTPWrapper } from 'ssh2'
import { TestAgent, token } from '../agent-suite.ts'
import { hostKeyOf } from './host-key.ts'

const agent = new TestAgent()

type Entered = { status: number; body: string; socket: Socket | undefined }

/** Asks for a connection of SSH. */
async function enter(
  path = '/ssh',
  headers: Record<string, string> = { 'x-access-token': token },
): Promise<Entered> {
  const asked = request({
    host: '127.0.0.1',
    port: agent.port,
    path,
    headers: { connection: 'upgrade', upgrade: 'warren-ssh', ...headers },
    agent: false,
  })
  asked.end()
  return new Promise((resolve, reject) => {
    asked.once('error', reject)
    asked.once('upgrade', (_answer, socket: Socket, head: Buffer) => {
      if (head.length > 0) socket.unshift(head)
      resolve({ status: 101, body: '', socket })
    })
    asked.once('response', async (answer) => {
      let body = ''
      for await (const chunk of answer) body += chunk
      resolve({ status: answer.statusCode!, body, socket: undefined })
    })
  })
}

async function connect(username = 'root'): Promise<Client & { hostKey?: Buffer }> {
  const { socket } = await enter(`/ssh?username=${username}`)
  const client: Client & { hostKey?: Buffer } = new ssh2.Client()
  const ready = once(client, 'ready')
  client.connect({
    sock: socket!,
    username,
    hostVerifier: (key: Buffer) => {
      client.hostKey = key
      return true
    },
  })
  await ready
  return client
}

const channelOf = (open: (done: (error: Error | undefined, channel: ClientChannel) => void) => void) =>
  new Promise<ClientChannel>((resolve, reject) =>
    open((error, channel) => (error ? reject(error) : resolve(channel))),
  )

async function outcome(channel: ClientChannel) {
  const read = { out: '', err: '' }
  channel.on('data', (bytes: Buffer) => (read.out += bytes))
  channel.stderr.on('data', (bytes: Buffer) => (read.err += bytes))
  let end: unknown[] = []
  channel.on('exit', (...words: unknown[]) => (end = words))
  await once(channel, 'close')
  return { ...read, end: end.slice(0, 2) }
}

suite('ssh', () => {
  before(() => agent.start())
  after(() => agent.stop())

  test('nobody enters without the token, at another path, or as a user who does not exist', async () => {
    const refused = [
      await enter('/ssh', {}),
      await enter('/ssh', { 'x-access-token': 'another' }),
      await enter('/other'),
      await enter('/ssh?username=nobody-here'),
    ]
    assert.deepEqual(
      refused.map(({ status }) => status),
      [401, 401, 404, 400],
    )
    assert.match(refused[3]!.body, /The sandbox has no user 'nobody-here'. Use another, or 'default'/)
  })

  test('a command has its output, its errors, its exit code, the variables and the home of its user', async () => {
    const client = await connect()
    const command = 'echo "$GLOBAL $MINE $USER $(pwd)"; cat; echo wrong >&2; exit 7'
    const channel = await channelOf((done) => client.exec(command, { env: { MINE: 'too' } }, done))
    channel.end('input\n')
    assert.deepEqual(await outcome(channel), { out: 'yes too root /root\ninput\n', err: 'wrong\n', end: [7] })
    client.end()
  })

  test('a command that is killed ends with its signal, and a client can send one', async () => {
    const client = await connect()
    const channel = await channelOf((done) => client.exec('echo ready; exec sleep 60', done))
    const end = outcome(channel)
    await once(channel, 'data')
    channel.signal('TERM')
    assert.deepEqual((await end).end, [null, 'SIGTERM'])
    client.end()
  })

  test('a shell has a terminal, and follows the size of the window', async () => {
    const client = await connect('default')
    const channel = await channelOf((done) => client.shell({ term: 'vt220', cols: 90, rows: 20 }, done))
    let seen = ''
    channel.on('data', (bytes: Buffer) => (seen += bytes))
    const until = async (pattern: RegExp) => {
      while (!pattern.test(seen)) await once(channel, 'data')
    }
    channel.write('stty size; echo "term $TERM"; shopt -q login_shell && echo of login\n')
    await until(/20 90.*term vt220.*of login/s)
    channel.setWindow(33, 101, 0, 0)
    channel.write('stty size\n')
    await until(/33 101/)
    const end = outcome(channel)
    channel.write('exit 3\n')
    assert.deepEqual((await end).end, [3])
    client.end()
  })

  test('the host key is that of the token', async () => {
    const client = await connect()
    const [key] = [ssh2.utils.parseKey(hostKeyOf(token))].flat()
    assert.ok(key && !(key instanceof Error))
    assert.deepEqual(client.hostKey, key.getPublicSSH())
    client.end()
  })

  test('SFTP makes, reads, lists, renames and removes files', async () => {
    const client = await connect()
    const sftp = await new Promise<SFTPWrapper>((resolve, reject) =>
      client.sftp((error, opened) => (error ? reject(error) : resolve(opened))),
    )
    const call = <T = void>(work: (done: (error: Error | undefined | null, value: T) => void) => void) =>
      new Promise<T>((resolve, reject) => work((error, value) => (error ? reject(error) : resolve(value))))
    const folder = join(agent.folder, 'sftp')
    const path = (name: string) => join(folder, name)
    await call((done) => sftp.mkdir(folder, done as never))
    const text = Buffer.alloc(300_000, 'warren ')
    const written: number[] = []
    const file = await call<Buffer>((done) => sftp.open(path('one'), 'w', done))
    const parts = Array.from({ length: 10 }, (_, part) => part * 30_000)
    await Promise.all(
      parts.map(async (at) => {
        await call((done) => sftp.write(file, text, at, 30_000, at, done as never))
        written.push(at)
      }),
    )
    await call((done) => sftp.close(file, done as never))
    assert.deepEqual(written, parts, 'writes were answered in another order')
    assert.deepEqual(readFileSync(path('one')), text)
    assert.deepEqual(await call<Buffer>((done) => sftp.readFile(path('one'), done)), text)
    await call((done) => sftp.chmod(path('one'), 0o640, done as never))
    await call((done) => sftp.symlink('one', path('link'), done as never))
    assert.equal(await call<string>((done) => sftp.readlink(path('link'), done)), 'one')
    for (let count = 0; count < 250; count++) writeFileSync(path(`file ${count}`), '')
    const listed = await call<{ filename: string; longname: string }[]>((done) => sftp.readdir(folder, done))
    assert.equal(listed.length, 252)
    const shown = listed.find(({ filename }) => filename === 'one')!.longname
    assert.match(shown, /^-rw-r----- +1 root +root +300000 [A-Z][a-z]{2} [ \d]\d +\d{4} one$/)
    await assert.rejects(
      call((done) => sftp.rename(path('one'), path('file 1'), done as never)),
      /exists/,
    )
    await call((done) => sftp.rename(path('one'), path('two'), done as never))
    await call((done) => sftp.unlink(path('two'), done as never))
    await assert.rejects(
      call((done) => sftp.stat(path('two'), done)),
      { code: 2 },
    )
    assert.equal(await call<string>((done) => sftp.realpath('.', done)), '/root')
    client.end()
  })

  test('ports are forwarded in both directions', async () => {
    const client = await connect()
    const echo = createServer((socket) => socket.pipe(socket))
    echo.listen(0, '127.0.0.1')
    await once(echo, 'listening')
    const { port } = echo.address() as { port: number }
    const out = await channelOf((done) => client.forwardOut('127.0.0.1', 0, '127.0.0.1', port, done))
    out.end('there and back')
    assert.equal((await outcome(out)).out, 'there and back')
    client.on('tcp connection', (_details, accept) => {
      const channel = accept()
      channel.end('from the client')
    })
    const bound = await new Promise<number>((resolve, reject) =>
      client.forwardIn('127.0.0.1', 0, (error, port) => (error ? reject(error) : resolve(port))),
    )
    const answer = await fetchRaw(bound)
    assert.equal(answer, 'from the client')
    const refused = channelOf((done) => client.forwardOut('127.0.0.1', 0, '127.0.0.1', 1, done))
    await assert.rejects(refused, /Connection refused|Channel open failure/i)
    client.end()
    echo.close()
  })

  test('the process of a connection ends with it, and no row of the process list shows it', async () => {
    const client = await connect()
    const channel = await channelOf((done) => client.exec('echo $PPID; exec cat', done))
    const [pid] = await once(channel, 'data')
    const { json } = await agent.fetch(
      'POST',
      '/process.Process/List',
      { 'content-type': 'application/json' },
      '{}',
    )
    assert.deepEqual(json.processes ?? [], [])
    client.end()
    while (isAlive(Number(pid))) await new Promise((resolve) => setTimeout(resolve, 10))
  })

  test('what is no SSH ends the connection', async () => {
    const { socket } = await enter()
    socket!.on('data', () => {})
    socket!.write('GET / HTTP/1.1\r\n\r\n')
    await once(socket!, 'close')
  })
})

function isAlive(pid: number): boolean {
  try {
    return process.kill(pid, 0)
  } catch {
    return false
  }
}

async function fetchRaw(port: number): Promise<string> {
  const socket = connectTo(port, '127.0.0.1')
  let text = ''
  for await (const chunk of socket) text += chunk
  return text
}
