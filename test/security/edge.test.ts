/** Lines B of what will be tried against us, with real sandboxes of two teams behind the edge. */
import assert from 'node:assert/strict'
import net from 'node:net'
import { after, before, describe, it } from 'node:test'
import { Sandbox } from 'e2b'
import { secondTeam } from '../support/building.ts'
import { eventually } from '../support/eventually.ts'
import { anyIsolation, joinWarren, type Warren } from '../support/warren.ts'

const port = 8000
const service = (mark: string) => `
import http.server
class Marked(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(200)
        for domain in ('localhost', '.localhost'):
            self.send_header('Set-Cookie', 'stolen=1; Domain=' + domain)
        self.end_headers()
        self.wfile.write(('${mark} ' + self.path + ' ' + str(self.headers.get('e2b-traffic-access-token')) + ' ' + str(self.headers)).encode())
http.server.HTTPServer(('0.0.0.0', ${port}), Marked).serve_forever()
`

describe('the edge, attacked', () => {
  let warren: Warren
  let mine: Sandbox
  let theirs: Sandbox
  const tokens = { mine: '', theirs: '' }
  const own = (sandbox: Sandbox, at: number | string = port) => `${at}-${sandbox.sandboxId}.localhost`

  /** Sends a head unchanged; returns the whole answer. */
  const send = (...lines: string[]): Promise<string> =>
    new Promise((done, fail) => {
      const { hostname, port: apiPort } = new URL(warren.url)
      const socket = net.connect(Number(apiPort), hostname)
      const chunks: Buffer[] = []
      socket.on('data', (chunk) => chunks.push(chunk)).on('error', fail)
      socket.on('close', () => done(Buffer.concat(chunks).toString('latin1')))
      socket.setTimeout(300_000, () => socket.destroy(new Error(`no answer to ${lines[0]}`)))
      socket.write(`${[...lines, 'Connection: close'].join('\r\n')}\r\n\r\n`, 'latin1')
    })
  const get = (host: string, ...more: string[]) => send('GET / HTTP/1.1', `Host: ${host}`, ...more)
  const withToken = (token: string) => `E2b-Traffic-Access-Token: ${token}`
  const statusOf = (answer: string) => Number(answer.split(' ')[1])

  before(async () => {
    warren = await joinWarren(anyIsolation)
    const others = await secondTeam(warren)
    const network = { allowPublicTraffic: false }
    const make = async (client: Warren['client'], mark: string) => {
      const sandbox = await Sandbox.create('base', { ...client, network })
      await sandbox.files.write('/tmp/service.py', service(mark))
      await sandbox.commands.run('python3 /tmp/service.py', { background: true, timeoutMs: 0 })
      return sandbox
    }
    mine = await make(warren.client, 'mine')
    theirs = await make(others.client, 'theirs')
    for (const [name, sandbox] of [
      ['mine', mine],
      ['theirs', theirs],
    ] as const) {
      tokens[name] = sandbox.trafficAccessToken ?? ''
      await eventually(async () => {
        assert.match(await get(own(sandbox), withToken(tokens[name])), new RegExp(`${name} /`))
      })
    }
  })
  after(async () => {
    await mine?.kill()
    await theirs?.kill()
    await warren?.stop()
  })

  it('hides the credentials for Warren from services, and passes on their own (J8)', async () => {
    const { apiKey, adminToken } = warren
    const answer = await get(
      own(mine),
      withToken(tokens.mine),
      ...[`X-API-Key: ${apiKey}`, `X-Admin-Token: ${adminToken}`],
      `Authorization: Bearer sk_${apiKey}`,
      'X-Own-Key: of the service',
    )
    assert.match(answer, /X-Own-Key: of the service/)
    for (const secret of [apiKey, adminToken]) assert.ok(!answer.includes(secret))
    assert.match(await get(own(mine), withToken(tokens.mine), 'X-API-Key: 12345'), /X-API-Key: 12345/)
  })

  it('follows Host alone if it names a sandbox, whatever else names another (B1)', async () => {
    const lies = [
      `E2b-Sandbox-Id: ${theirs.sandboxId}`,
      `E2b-Sandbox-Port: ${port}`,
      `X-Forwarded-Host: ${own(theirs)}`,
      `Forwarded: host=${own(theirs)}`,
      `X-Original-Host: ${own(theirs)}`,
    ]
    const token = withToken(tokens.mine)
    for (const host of [own(mine), own(mine).toUpperCase(), `${own(mine)}.`, `${own(mine)}:80`]) {
      assert.match(await get(host, token, ...lies), /\r\n\r\n.*mine \/ None/s, host)
    }
  })

  it('rejects an ambiguous request (B1, B2)', async () => {
    const token = withToken(tokens.mine)
    const route = (id: string, at: string) => [`E2b-Sandbox-Id: ${id}`, `E2b-Sandbox-Port: ${at}`]
    const { sandboxId } = mine
    for (const head of [
      ['GET / HTTP/1.1', `Host: ${own(mine)}`, `Host: ${own(theirs)}`],
      [`GET http://${own(theirs)}/ HTTP/1.1`, `Host: ${own(mine)}`],
      ['GET / HTTP/1.1', `Host: ${own(mine)}@${own(theirs)}`],
      ['GET / HTTP/1.1', `Host: ${own(mine)}, ${own(theirs)}`],
      ['GET / HTTP/1.1', `Host: ${own(mine).replace('.', '%2e')}`],
      ['GET / HTTP/1.1', 'Host: localhost', ...route(`${sandboxId}/../${theirs.sandboxId}`, '8000')],
      ['GET / HTTP/1.1', 'Host: localhost', ...route(`${sandboxId}@127.0.0.1`, '8000')],
      ['GET / HTTP/1.1', 'Host: localhost', ...route(sandboxId, '8000#80')],
      ['GET / HTTP/1.1', 'Host: localhost', ...route(sandboxId, '8000'), ...route(theirs.sandboxId, '8000')],
    ]) {
      const answer = await send(...head, token)
      assert.equal(statusOf(answer), 400, `${head}: ${answer}`)
      assert.doesNotMatch(answer, /(mine|theirs) \//)
    }
  })

  it('routes no port of a sandbox to the machine below it (B3)', async () => {
    const apiPort = new URL(warren.url).port
    for (const at of [apiPort, '22', '53', '80', '443']) {
      const answer = await get(own(mine, at), withToken(tokens.mine))
      assert.equal(statusOf(answer), 502, answer)
      assert.match(answer, /The sandbox is running but port is not open/)
    }
    const metadata = await send(
      'GET //169.254.169.254/latest HTTP/1.1',
      `Host: ${own(mine)}`,
      withToken(tokens.mine),
    )
    assert.match(metadata, /mine \/+169\.254\.169\.254\/latest/)
  })

  it('opens a private sandbox to its own token only, upgrades included (B4, B6)', async () => {
    const upgrade = [
      'Upgrade: websocket',
      'Sec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==',
      'Sec-WebSocket-Version: 13',
    ]
    for (const extra of [[], upgrade]) {
      for (const token of [[], [''], [tokens.theirs], [tokens.mine.slice(1)], [tokens.mine, tokens.mine]]) {
        const answer = await get(own(mine), ...token.map(withToken), ...extra)
        assert.equal(statusOf(answer), 403, answer)
      }
    }
    const health = await send('GET /health HTTP/1.1', `Host: ${own(mine, 49983)}`)
    assert.equal(statusOf(health), 204, 'the agent asks for its own token, not for this one')
    for (const path of ['/init', '/INIT', '//init', '/./init', '/%69nit', '/init/', '/init?x']) {
      const answer = await send(`POST ${path} HTTP/1.1`, `Host: ${own(mine, 49983)}`, 'Content-Length: 0')
      assert.ok([404, 401].includes(statusOf(answer)), `${path}: ${answer}`)
    }
  })

  it('lets no sandbox set a cookie for its neighbours or for the API (B5, B7)', async () => {
    const answer = await get(own(mine), withToken(tokens.mine))
    assert.doesNotMatch(answer.split('\r\n\r\n')[0]!, /domain=\.?localhost/i)
  })

  it('answers for an ended or paused sandbox as for one that never existed (B6, I8)', async () => {
    const [gone, paused] = [
      await Sandbox.create('base', warren.client),
      await Sandbox.create('base', warren.client),
    ]
    await gone.kill()
    await paused.pause()
    const ask = async (id: string) => {
      const answers = [
        await get(`${port}-${id}.localhost`),
        await get('localhost', `E2b-Sandbox-Id: ${id}`, `E2b-Sandbox-Port: ${port}`),
        await get(`49983-${id}.localhost`),
        await send('POST /init HTTP/1.1', `Host: 49983-${id}.localhost`, 'Content-Length: 0'),
      ]
      assert.deepEqual(answers.map(statusOf), [502, 502, 502, 404])
      return answers.map((answer) => answer.replace(/\r\n(Date|X-Request-Id): .*/g, '').replaceAll(id, 'ID'))
    }
    const unknown = await ask('z'.repeat(gone.sandboxId.length))
    assert.deepEqual(await ask(gone.sandboxId), unknown)
    assert.deepEqual(await ask(paused.sandboxId), unknown)
    await paused.kill()
  })
})
