/** One Warren whose port stays open while it restarts, and real clients that speak HTTP/2 with it. */
import assert from 'node:assert/strict'
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, before, test } from 'node:test'
import { issueCertificate, makeAuthority } from '../../src/lib/certificates.ts'
import { countOf } from '../support/count-of.ts'
import { eventually } from '../support/eventually.ts'
import { pythonCommand } from '../support/python.ts'
import { pythonReleases } from '../support/releases.ts'
import { type ReservedPort, reservePort, spinUntilEnd } from '../support/reserved-port.ts'
import { anyIsolation, noWarmPool, portOf, seat, startWarren, type Warren } from '../support/warren.ts'

const restarts = countOf({ short: 1, long: 4 })
const port = portOf(anyIsolation, seat)
const [[version] = []] = pythonReleases(anyIsolation, 'same')
const folder = mkdtempSync(join(tmpdir(), 'warren-tls-'))
const inFolder = (name: string) => join(folder, name)
let reserved: ReservedPort
let warren: Warren

before(async () => {
  const authority = makeAuthority('restart test')
  const leaf = issueCertificate(authority, { names: ['localhost', '*.localhost'], days: 1 })
  writeFileSync(inFolder('ca.pem'), authority.certificate)
  writeFileSync(inFolder('cert.pem'), leaf.certificate)
  writeFileSync(inFolder('key.pem'), leaf.key)
  reserved = await reservePort(port)
  warren = await start(false)
})
after(async () => {
  await warren?.stop()
  reserved?.close()
  rmSync(folder, { recursive: true, force: true })
})

const start = (keepData: boolean) =>
  startWarren(anyIsolation, {
    keepData,
    name: 'restarting',
    program: reserved.launcher,
    settings: {
      ...noWarmPool,
      WARREN_DOMAIN: 'warren.localhost',
      WARREN_TLS_CERT: inFolder('cert.pem'),
      WARREN_TLS_KEY: inFolder('key.pem'),
    },
  })

test('clients of HTTP/2 that go on while Warren restarts on a busy machine see no error', async (context) => {
  const url = `https://localhost:${port}`
  const child = spawn(...pythonCommand(version!, join(import.meta.dirname, 'python/restart.py')), {
    env: {
      PATH: process.env.PATH,
      E2B_API_KEY: warren.apiKey,
      E2B_API_URL: url,
      E2B_SANDBOX_URL: url,
      SSL_CERT_FILE: inFolder('ca.pem'),
    },
    stdio: ['pipe', 'pipe', 'inherit'],
  })
  context.after(() => child.kill('SIGKILL'))
  let printed = ''
  child.stdout.on('data', (chunk) => {
    printed += chunk
  })
  const ended = once(child, 'close')
  const count = () => printed.split('done\n').length - 1
  spinUntilEnd(context)
  await eventually(() => assert.ok(count() > 12))
  for (let restart = 0; restart < restarts; restart++) {
    assert.equal(await warren.stop(), 0)
    warren = await start(true)
    const before = count()
    await eventually(() => assert.ok(count() > before + 12))
  }
  child.stdin.end()
  await ended
  const errors = JSON.parse(printed.trim().split('\n').at(-1)!)
  assert.deepEqual(errors, [], `${errors.length} of ${count()} requests failed`)
  console.log(`${count()} requests of HTTP/2 over ${restarts} restarts`)
})
