// biome-ignore-all lint/suspicious/noTemplateCurlyInString: ${PORT} is part of the wire
/** What a sandbox's network options say about traffic to it, through the unmodified client. */
import assert from 'node:assert/strict'
import http from 'node:http'
import { after, before, describe, it } from 'node:test'
import { Sandbox } from 'e2b'
import { issueCertificate, makeAuthority } from '../../src/lib/certificates.ts'
import { eventually } from '../support/eventually.ts'
import { isolations, joinWarren, type Warren } from '../support/warren.ts'

/** On loopback, so that the way through the agent is tried too. */
const server = (port: number, tls: boolean) => `
import http.server, ssl
class Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        token = self.headers.get("E2b-Traffic-Access-Token")
        text = f"{self.headers['Host']} for {self.headers['X-Forwarded-Host']} with {token}".encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(text)))
        self.end_headers()
        self.wfile.write(text)
server = http.server.ThreadingHTTPServer(("127.0.0.1", ${port}), Handler)
if ${tls ? 'True' : 'False'}:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain("cert.pem", "key.pem")
    server.socket = context.wrap_socket(server.socket, server_side=True)
server.serve_forever()
`

for (const isolation of isolations) {
  describe(`traffic to a sandbox, ${isolation}`, () => {
    let warren: Warren
    let sandbox: Sandbox
    before(async () => {
      warren = await joinWarren(isolation)
      sandbox = await Sandbox.create('base', {
        ...warren.client,
        timeoutMs: 3_600_000,
        network: { allowPublicTraffic: false, maskRequestHost: 'localhost:${PORT}', httpsPorts: [8443] },
      })
      const leaf = issueCertificate(makeAuthority('inside'), { names: ['inside'], days: 1 })
      await sandbox.files.write([
        { path: 'cert.pem', data: leaf.certificate },
        { path: 'key.pem', data: leaf.key },
        { path: 'plain.py', data: server(8000, false) },
        { path: 'secure.py', data: server(8443, true) },
      ])
      for (const name of ['plain', 'secure']) {
        await sandbox.commands.run(`python3 ${name}.py`, { background: true, timeoutMs: 0 })
      }
    })
    after(async () => {
      await sandbox?.kill()
      await warren?.stop()
    })

    it('needs no token if a sandbox is not secure, even if it is paused', async () => {
      const body = { templateID: 'base', secure: false, autoResume: { enabled: true } }
      const made = await warren.api('/sandboxes', { body })
      assert.equal(made.status, 201)
      const { sandboxID, envdAccessToken } = (await made.json()) as Record<string, string>
      assert.equal(envdAccessToken, undefined)
      const read = async () => {
        const headers = { 'E2b-Sandbox-Id': sandboxID!, 'E2b-Sandbox-Port': '49983' }
        const answer = await fetch(`${warren.url}/files?path=/etc/hostname`, { headers })
        return [answer.status, await answer.text()]
      }
      assert.deepEqual(await read(), [200, `${sandboxID}\n`])
      assert.equal((await warren.api(`/sandboxes/${sandboxID}/pause`, { method: 'POST' })).status, 204)
      assert.deepEqual(await read(), [200, `${sandboxID}\n`])
      await warren.api(`/sandboxes/${sandboxID}`, { method: 'DELETE' })
    })

    async function ask(port: number, token = sandbox.trafficAccessToken) {
      const headers = { host: sandbox.getHost(port), ...(token && { 'e2b-traffic-access-token': token }) }
      const request = http.get(warren.url, { headers, agent: false })
      const response = await new Promise<http.IncomingMessage>((resolve, reject) => {
        request.on('response', resolve).on('error', reject)
      })
      return { status: response.statusCode, text: (await response.toArray()).join('') }
    }
    const answered = (port: number) => ({
      status: 200,
      text: `localhost:${port} for ${sandbox.getHost(port)} with None`,
    })

    it("needs its token on every port but the agent's, and the service sees neither the token nor the outer name", async () => {
      await eventually(async () => assert.deepEqual(await ask(8000), answered(8000)))
      for (const [token, words] of [
        ['', /is missing/],
        ['0'.repeat(64), /is invalid/],
      ] as const) {
        const { status, text } = await ask(8000, token)
        assert.equal(status, 403)
        assert.match(text, words)
      }
      assert.equal((await sandbox.commands.run('echo the agent')).stdout, 'the agent\n')
    })

    it('is carried over TLS to a port that speaks it, also after a pause', async () => {
      await eventually(async () => assert.deepEqual(await ask(8443), answered(8443)))
      await sandbox.pause()
      await sandbox.connect()
      await eventually(async () => assert.deepEqual(await ask(8443), answered(8443)))
      assert.deepEqual(await ask(8000), answered(8000))
    })
  })
}
