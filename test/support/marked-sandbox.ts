/** A sandbox that holds a mark in the memory of a service, and the same mark in a file. */
import assert from 'node:assert/strict'
import { Sandbox } from 'e2b'
import { eventually } from './eventually.ts'
import type { Warren } from './warren.ts'

const service = `cat > /tmp/marked.py <<'END'
import http.server, os
mark = os.environ['MARK'].encode()
class Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(200); self.send_header('Content-Length', str(len(mark))); self.end_headers()
        self.wfile.write(mark)
    def log_message(self, *_): pass
http.server.HTTPServer(('', 8000), Handler).serve_forever()
END
exec python3 /tmp/marked.py`

export type Marked = { sandboxID: string; mark: string }

export async function createMarked(warren: Warren, mark: string): Promise<Marked> {
  const options = { ...warren.client, timeoutMs: 3_600_000, metadata: { mark } }
  const { sandboxId: sandboxID, commands, files } = await Sandbox.create('base', options)
  await files.write('/home/user/mark', mark)
  await commands.run(service, { background: true, timeoutMs: 0, envs: { MARK: mark } })
  const marked = { sandboxID, mark }
  await eventually(async () => assert.equal(await markInMemory(warren, marked), mark))
  return marked
}

/** Undefined when the service is not there. */
export async function markInMemory(warren: Warren, { sandboxID }: Marked): Promise<string | undefined> {
  const headers = { 'E2b-Sandbox-Id': sandboxID, 'E2b-Sandbox-Port': '8000' }
  const answer = await fetch(warren.url, { headers })
  const text = await answer.text()
  return answer.status === 200 ? text : undefined
}

export async function markInFile(warren: Warren, { sandboxID }: Marked): Promise<string> {
  const sandbox = await Sandbox.connect(sandboxID, { ...warren.client, timeoutMs: 3_600_000 })
  return (await sandbox.files.read('/home/user/mark')).trim()
}
