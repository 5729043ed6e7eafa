import assert from 'node:assert/strict'
import { execFile } from 'node:child_process'
import { once } from 'node:events'
import http from 'node:http'
import type { AddressInfo } from 'node:net'
import { join } from 'node:path'
import { test } from 'node:test'
import { promisify } from 'node:util'
import { projectFolder } from './project/project-folder.ts'

test('an error that quotes a sandbox is printed without its control sequences', async () => {
  const message = 'Build failed: \x1b[2J\x1b]0;title\x07 gnp.\u202eexe'
  const server = http.createServer((_, response) => response.writeHead(400).end(JSON.stringify({ message })))
  await once(server.listen(0, '127.0.0.1'), 'listening')
  try {
    const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`
    const env = { ...process.env, E2B_API_URL: url, E2B_API_KEY: 'key' }
    const run = promisify(execFile)(
      process.execPath,
      [join(projectFolder, 'src/app/main.ts'), 'sandbox', 'list'],
      { env },
    )
    const { code, stderr } = await run.then(
      () => assert.fail('it succeeded'),
      (error) => error,
    )
    assert.deepEqual({ code, stderr }, { code: 1, stderr: 'Build failed: ?]0;title? gnp.?exe\n' })
  } finally {
    server.close()
  }
})
