import assert from 'node:assert/strict'
import { execFileSync } from 'node:child_process'
import { once } from 'node:events'
import { mkdirSync, readFileSync, rmSync, symlinkSync, writeFileSync } from 'node:fs'
import { type AddressInfo, connect, createServer } from 'node:net'
import { join } from 'node:path'
import { suite, test } from 'node:test'
import { makeAuthority } from '../lib/certificates.ts'
import { TestAgent, token, useAgent } from './agent-suite.ts'

const agent = useAgent()

suite('access', () => {
  test('the health check needs no token', async () => {
    assert.equal((await agent.open('GET', '/health')).statusCode, 204)
  })

  test('all other paths need the token, those of RPCs included', async () => {
    for (const [method, path] of [
      ['POST', '/process.Process/List'],
      ['POST', '/filesystem.Filesystem/Stat'],
      ['GET', '/envs'],
      ['GET', '/nothing'],
      ['POST', '/health'],
    ] as const) {
      for (const given of [{}, { 'x-access-token': 'wrong' }]) {
        const answer = await agent.fetch(
          method,
          path,
          { 'x-access-token': '', 'content-type': 'application/json', ...given },
          method === 'POST' ? '{}' : undefined,
        )
        assert.equal(answer.status, 401, path)
        assert.deepEqual(answer.json, {
          code: 401,
          message: 'unauthorized access, please provide a valid access token or method signing if supported',
        })
      }
    }
  })

  test('the variables for all processes are shown to a client with the token', async () => {
    assert.deepEqual((await agent.fetch('GET', '/envs')).json, { GLOBAL: 'yes' })
  })

  test('an unknown path is 404', async () => {
    assert.equal((await agent.fetch('GET', '/nothing')).status, 404)
  })

  test('a browser may call from anywhere', async () => {
    const preflight = await agent.open('OPTIONS', '/process.Process/List', {
      origin: 'https://app.example',
      'access-control-request-method': 'POST',
      'access-control-request-headers': 'authorization, x-access-token',
    })
    assert.equal(preflight.statusCode, 204)
    assert.equal(preflight.headers['access-control-allow-origin'], '*')
    assert.equal(preflight.headers['access-control-allow-headers'], 'authorization, x-access-token')
    assert.equal(preflight.headers['access-control-max-age'], '7200')
    assert.equal((await agent.open('GET', '/health')).headers['access-control-allow-origin'], '*')
  })
})

suite('init', () => {
  test("sets everything, publishes the sandbox's id, and requires the token from then on", async () => {
    const fresh = new TestAgent()
    await fresh.start()
    fresh.agent.identity.apply({ accessToken: '' })
    try {
      const identity = {
        accessToken: 'first',
        envVars: { E2B_SANDBOX: 'true', E2B_SANDBOX_ID: 'iabc', E2B_TEMPLATE_ID: 'tpl', OTHER: 'x' },
        defaultUser: 'nobody',
        defaultWorkdir: '/tmp',
        timestamp: '2026-01-01T00:00:00Z',
        lifecycleID: 'ignored',
      }
      assert.equal((await fresh.open('POST', '/init', {}, JSON.stringify(identity))).statusCode, 204)
      assert.equal(readFileSync(join(fresh.folder, 'run/.E2B_SANDBOX_ID'), 'utf8'), 'iabc')
      assert.equal(readFileSync(join(fresh.folder, 'run/.E2B_TEMPLATE_ID'), 'utf8'), 'tpl')
      const run = await fresh.run('id -un; pwd; echo $OTHER', { headers: { 'x-access-token': 'first' } })
      assert.equal(run.stdout, 'nobody\n/tmp\nx\n')

      const again = JSON.stringify({ accessToken: 'stolen' })
      assert.equal((await fresh.open('POST', '/init', {}, again)).statusCode, 401)
      assert.equal((await fresh.open('POST', '/init', { 'x-access-token': 'wrong' }, again)).statusCode, 401)
      assert.equal((await fresh.open('POST', '/init', { 'x-access-token': 'first' }, again)).statusCode, 204)
      assert.equal((await fresh.open('POST', '/init', { 'x-access-token': 'first' }, again)).statusCode, 401)
    } finally {
      await fresh.stop()
    }
  })

  test('publishes through no link and waits for no pipe in the place of a file', async () => {
    const fresh = new TestAgent()
    await fresh.start()
    try {
      const published = join(fresh.folder, 'run/.E2B_SANDBOX_ID')
      const target = join(fresh.folder, 'target')
      const body = JSON.stringify({ envVars: { E2B_SANDBOX_ID: 'iabc' } })
      mkdirSync(join(fresh.folder, 'run'))
      writeFileSync(target, 'kept')
      symlinkSync(target, published)
      assert.equal((await fresh.open('POST', '/init', { 'x-access-token': token }, body)).statusCode, 204)
      assert.equal(readFileSync(target, 'utf8'), 'kept')
      rmSync(published)
      execFileSync('mkfifo', [published])
      assert.equal((await fresh.open('POST', '/init', { 'x-access-token': token }, body)).statusCode, 204)
      assert.equal((await fresh.open('GET', '/health')).statusCode, 204)
    } finally {
      await fresh.stop()
    }
  })

  test('may leave the agent without a token, but not open to a second init', async () => {
    const fresh = new TestAgent()
    await fresh.start()
    const init = (body: object, given = token) =>
      fresh.open('POST', '/init', { 'x-access-token': given }, JSON.stringify(body))
    const ask = async (given: string) => {
      const headers = { 'x-access-token': given }
      const { status } = await fresh.fetch('GET', '/envs', headers)
      const file = await fresh.fetch('GET', '/files?path=/etc/hostname', headers)
      return [status, file.status]
    }
    try {
      assert.equal((await init({ secure: false })).statusCode, 204)
      for (const given of ['', 'wrong', token]) assert.deepEqual(await ask(given), [200, 200])
      assert.equal((await init({ secure: true }, 'wrong')).statusCode, 401)
      assert.equal((await init({ envVars: {} })).statusCode, 204)
      assert.deepEqual(await ask('wrong'), [200, 200])
      assert.equal((await init({ secure: true })).statusCode, 204)
      assert.deepEqual(await ask('wrong'), [401, 401])
    } finally {
      await fresh.stop()
    }
  })

  test('makes programs trust the given authority, unless the caller sets other variables', async () => {
    const fresh = new TestAgent()
    await fresh.start()
    try {
      const headers = { 'x-access-token': token }
      const caBundle = makeAuthority('egress').certificate
      const own = { NODE_EXTRA_CA_CERTS: 'mine' }
      const show = async () => (await fresh.run('echo $NODE_EXTRA_CA_CERTS')).stdout
      assert.equal((await fresh.open('POST', '/init', headers, JSON.stringify({ caBundle }))).statusCode, 204)
      const file = '/usr/local/share/ca-certificates/warren.pem'
      assert.equal(readFileSync(join(fresh.folder, file), 'utf8'), caBundle)
      assert.equal(await show(), `${file}\n`)
      await fresh.open('POST', '/init', headers, JSON.stringify({ envVars: own }))
      assert.equal(await show(), 'mine\n')
      const broken = await fresh.fetch('POST', '/init', headers, '{"caBundle":"nonsense"}')
      assert.equal(broken.status, 400)
    } finally {
      await fresh.stop()
    }
  })

  test('a malformed body changes nothing', async () => {
    for (const body of ['{', '[]', '"x"', '{"envVars":{"A":1}}', '{"accessToken":5}', '{"envVars":"A"}']) {
      assert.equal((await agent.fetch('POST', '/init', {}, body)).status, 400, body)
    }
    assert.equal(
      (await agent.fetch('POST', '/process.Process/List', { 'content-type': 'application/json' }, '{}'))
        .status,
      200,
    )
  })
})

suite('relay', () => {
  async function relay(port: number | string, headers = `X-Access-Token: ${token}\r\n`) {
    const socket = connect({ port: agent.port, host: '127.0.0.1', allowHalfOpen: true })
    socket.write(
      `GET /relay?port=${port} HTTP/1.1\r\nHost: x\r\nConnection: Upgrade\r\nUpgrade: warren-relay\r\n${headers}\r\n`,
    )
    let head = ''
    while (!head.includes('\r\n\r\n')) head += (await once(socket, 'data'))[0].toString('latin1')
    const end = head.indexOf('\r\n\r\n') + 4
    return { socket, status: Number(head.split(' ')[1]), rest: head.slice(end) }
  }

  async function service(host: string, answer: (text: string) => string) {
    const server = createServer({ allowHalfOpen: true }, async (socket) => {
      let text = ''
      for await (const chunk of socket) text += chunk
      socket.end(answer(text))
    })
    server.listen(0, host)
    await once(server, 'listening')
    return { server, port: (server.address() as AddressInfo).port }
  }

  for (const host of ['127.0.0.1', '::1']) {
    test(`carries both ways to a service on ${host}, past one side’s end`, async () => {
      const { server, port } = await service(host, (text) => `got ${text.length}`)
      const { socket, status } = await relay(port)
      assert.equal(status, 101)
      socket.end('x'.repeat(3_000_000))
      let text = ''
      for await (const chunk of socket) text += chunk
      assert.equal(text, 'got 3000000')
      server.close()
    })
  }

  test('rejects a closed port, a bad port and a wrong token', async () => {
    const { server, port } = await service('127.0.0.1', () => '')
    await new Promise((resolve) => server.close(resolve))
    assert.equal((await relay(port)).status, 502)
    assert.equal((await relay(0)).status, 400)
    assert.equal((await relay('x')).status, 400)
    assert.equal((await relay(port, '')).status, 401)
  })

  test('another kind of upgrade is served as a plain request', async () => {
    const response = await agent.open('GET', '/health', { connection: 'Upgrade', upgrade: 'h2c' })
    assert.equal(response.statusCode, 204)
  })
})

test('requests without a host, or that are not HTTP, leave the agent working', async () => {
  for (const text of [
    'GARBAGE\r\n\r\n',
    'POST /process.Process/List HTTP/1.0\r\nX-Access-Token: the-token\r\nContent-Type: application/json\r\n\r\n',
    'POST //[ HTTP/1.1\r\nHost: [\r\n\r\n',
  ]) {
    const socket = connect(agent.port, '127.0.0.1')
    socket.end(text)
    socket.on('data', () => {})
    socket.on('error', () => {})
    await once(socket, 'close')
  }
  assert.equal((await agent.open('GET', '/health')).statusCode, 204)
})
