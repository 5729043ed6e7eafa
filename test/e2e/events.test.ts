/** Events of a real sandbox, read and sent to a receiver outside, over a failing receiver and a crash of Warren. */
import assert from 'node:assert/strict'
import { createHash } from 'node:crypto'
import { after, before, describe, it } from 'node:test'
import { Sandbox } from 'e2b'
import { instanceOf } from '../../src/drivers/host/record/layout.ts'
import { internet, Outside } from '../../src/drivers/oci/suite/outside.ts'
import { filesWith } from '../support/leaked-texts.ts'
import { anyIsolation, noWarmPool, startWarren, type Warren } from '../support/warren.ts'

const secret = 'webhook-secret-not-to-be-seen'
const receiver = `http://${internet}:8080`

/** Refuses every event until it is asked for /open, and prints what it gets as lines of JSON. */
const program = `
import http.server, json
isOpen = False
class Receiver(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        global isOpen
        isOpen = True
        self.send_response(204); self.end_headers()
    def do_POST(self):
        body = self.rfile.read(int(self.headers['Content-Length'])).decode()
        headers = {key.lower(): value for key, value in self.headers.items()}
        status = 200 if isOpen else 503
        print(json.dumps({'status': status, 'headers': headers, 'body': body}), flush=True)
        self.send_response(status); self.end_headers()
    def log_message(self, *_): pass
server = http.server.ThreadingHTTPServer(('${internet}', 8080), Receiver)
print('ready', flush=True)
server.serve_forever()
`

type Received = { status: number; headers: Record<string, string>; body: string }

describe('events and webhooks', () => {
  let warren: Warren
  let outside: Outside
  before(async () => {
    warren = await startWarren(anyIsolation, { settings: noWarmPool })
    outside = new Outside(instanceOf(warren.dataFolder), program)
    await outside.open()
  })
  after(async () => {
    await outside?.close()
    await warren?.stop()
  })

  const received = async (until: RegExp): Promise<Received[]> =>
    (await outside.sees(until))
      .split('\n')
      .filter((line) => line.startsWith('{') && line.endsWith('}'))
      .map((line) => JSON.parse(line))

  it('report a life in its order, signed, although the receiver fails and Warren is killed meanwhile', async () => {
    const body = { name: 'w', url: `${receiver}/hook`, signatureSecret: secret }
    const events = ['created', 'updated', 'paused', 'resumed', 'killed'].map(
      (one) => `sandbox.lifecycle.${one}`,
    )
    const made = await warren.api('/events/webhooks', { method: 'POST', body: { ...body, events } })
    assert.equal(made.status, 201)
    const { id } = (await made.json()) as { id: string }
    const sandbox = await Sandbox.create('base', { ...warren.client, timeoutMs: 3_600_000 })
    await sandbox.setTimeout(200_000)
    await sandbox.pause()
    await Sandbox.connect(sandbox.sandboxId, warren.client)
    await received(/"status": 503/)
    await warren.crash()
    await sandbox.kill().catch(() => {})
    warren = await startWarren(anyIsolation, { settings: noWarmPool, keepData: true })
    assert.equal((await fetch(`${receiver}/open`)).status, 204)
    await Sandbox.kill(sandbox.sandboxId, warren.client)
    const all = await received(/"status": 200.*lifecycle\.killed/)
    const arrived = all.filter(({ status }) => status === 200)
    const types = arrived.map(({ body }) => JSON.parse(body).type)
    assert.deepEqual([...new Set(types)], events)
    for (const { headers, body } of all) {
      const expected = createHash('sha256')
        .update(secret + body)
        .digest('base64url')
      assert.equal(headers['e2b-signature'], expected)
      assert.deepEqual([headers['e2b-webhook-id'], JSON.parse(body).sandbox_id], [id, sandbox.sandboxId])
    }
    const listed = await warren.api(`/events/sandboxes/${sandbox.sandboxId}?orderAsc=true&limit=100`)
    const listedEvents = (await listed.json()) as { type: string; id: string }[]
    assert.deepEqual(
      listedEvents.map(({ type }) => type),
      events,
    )
    assert.deepEqual(
      [...new Set(arrived.map(({ body }) => JSON.parse(body).id))],
      listedEvents.map((event) => event.id),
    )
    assert.deepEqual(filesWith(warren.dataFolder, secret), [])
  })

  it('reach no internal network', async () => {
    for (const host of ['127.0.0.1', '169.254.169.254', '10.231.0.7']) {
      const body = {
        name: 'w',
        url: `http://${host}/`,
        signatureSecret: secret,
        events: ['sandbox.lifecycle.killed'],
      }
      const answer = await warren.api('/events/webhooks', { method: 'POST', body })
      assert.equal(answer.status, 400, host)
    }
  })
})
