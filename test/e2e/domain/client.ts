/**
 * What a JavaScript user does who knows only a domain and a key; the test beside it starts this with each
 * release, in a process that trusts the authority and resolves the domain.
 */
import assert from 'node:assert/strict'
import { createHash, randomBytes } from 'node:crypto'
import { once } from 'node:events'
import type * as Client from 'e2b'
import { eventually } from '../../support/eventually.ts'

const { Sandbox, Volume } = (await import(process.argv[2]!)) as typeof Client
const step = (name: string) => console.log(name)

/** Tells what it was asked, or echoes small frames of a WebSocket. */
const webServer = `
import base64, hashlib, http.server

class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    def do_GET(self):
        if self.headers.get("Upgrade", "").lower() == "websocket":
            return self.echo()
        text = f"GET {self.path} {self.headers['Host']} {self.headers['X-Forwarded-Proto']}".encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(text)))
        self.end_headers()
        self.wfile.write(text)
    def echo(self):
        key = self.headers["Sec-WebSocket-Key"] + "258EAFA5-E914-47DA-95CA-C5AB0DC85B11"
        self.send_response(101)
        self.send_header("Upgrade", "websocket")
        self.send_header("Connection", "Upgrade")
        self.send_header("Sec-WebSocket-Accept", base64.b64encode(hashlib.sha1(key.encode()).digest()).decode())
        self.end_headers()
        self.close_connection = True
        while True:
            head = self.rfile.read(2)
            if len(head) < 2 or head[0] & 15 == 8:
                return
            length = head[1] & 127
            mask = self.rfile.read(4)
            data = bytes(byte ^ mask[i % 4] for i, byte in enumerate(self.rfile.read(length)))
            self.wfile.write(bytes([head[0], length]) + data)

http.server.ThreadingHTTPServer(("127.0.0.1", 8765), Handler).serve_forever()
`

const sandbox = await Sandbox.create({ timeoutMs: 120_000 })
try {
  assert.equal(sandbox.getHost(8000), `8000-${sandbox.sandboxId}.${process.env.E2B_DOMAIN}`)
  step('commands')
  const seen: string[] = []
  const { stdout } = await sandbox.commands.run('echo one; sleep 0.2; echo two', {
    onStdout: (text) => void seen.push(text),
  })
  assert.deepEqual([stdout, seen], ['one\ntwo\n', ['one\n', 'two\n']])
  await Promise.all(Array.from({ length: 20 }, () => sandbox.commands.run('true')))

  step('files')
  const large = randomBytes(24 * 1024 * 1024)
  await sandbox.files.write('large.bin', new Blob([large]))
  const back = await sandbox.files.read('large.bin', { format: 'bytes' })
  const digest = (bytes: Uint8Array) => createHash('sha256').update(bytes).digest('hex')
  assert.equal(digest(back), digest(large))

  step('signed URLs')
  const upload = await fetch(await sandbox.uploadUrl('signed.txt'), {
    method: 'POST',
    body: formOf('by link'),
  })
  assert.equal(upload.status, 200, await upload.text())
  assert.equal(await (await fetch(await sandbox.downloadUrl('signed.txt'))).text(), 'by link')

  step('a port')
  await sandbox.files.write('server.py', webServer)
  await sandbox.commands.run('python3 server.py', { background: true, timeoutMs: 0 })
  const host = sandbox.getHost(8765)
  await eventually(async () => {
    const answer = await fetch(`https://${host}/page`)
    assert.deepEqual([answer.status, await answer.text()], [200, `GET /page ${host} https`])
  })

  step('a WebSocket')
  const socket = new WebSocket(`wss://${host}/`)
  await once(socket, 'open')
  socket.send('hello')
  const [message] = await once(socket, 'message')
  assert.equal((message as MessageEvent).data, 'hello')
  socket.close()

  step('a terminal')
  let screen = ''
  const decoder = new TextDecoder()
  const terminal = await sandbox.pty.create({
    cols: 80,
    rows: 24,
    onData(bytes) {
      screen += decoder.decode(bytes)
    },
  })
  await sandbox.pty.sendInput(terminal.pid, new TextEncoder().encode('echo $((6*7)); exit\n'))
  await terminal.wait()
  assert.match(screen, /\b42\b/)

  step('a closed port')
  const closed = await fetch(`https://${sandbox.getHost(4444)}/`)
  assert.deepEqual([closed.status, ((await closed.json()) as { port: number }).port], [502, 4444])
} finally {
  await sandbox.kill()
}
const gone = await fetch(`https://${sandbox.getHost(8000)}/`)
assert.deepEqual(await gone.json(), {
  sandboxId: sandbox.sandboxId,
  message: 'The sandbox was not found',
  code: 502,
})
step('a volume')
const volume = await Volume.create(`domain-${process.pid}`)
await volume.writeFile('/large', new Blob([Buffer.alloc(3_000_000, 'x')]).stream())
assert.equal((await volume.readFile('/large')).length, 3_000_000)
assert.equal(await Volume.destroy(volume.volumeId), true)
step('done')

function formOf(text: string): FormData {
  const form = new FormData()
  form.append('file', new Blob([text]), 'signed.txt')
  return form
}
