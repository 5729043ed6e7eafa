/**
 * A Warren that gets its certificate from a real ACME authority (Pebble, by the makers of Let's Encrypt), proves its domain
 * by DNS and by HTTP, and renews without a restart. Clients are the published ones.
 */
import assert from 'node:assert/strict'
import { execFileSync } from 'node:child_process'
import { existsSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, before, describe, it } from 'node:test'
import { connect, type TLSSocket } from 'node:tls'
import { eventually } from '../support/eventually.ts'
import { type NameServer, startNameServer } from '../support/name-server.ts'
import { type Pebble, startPebble } from '../support/pebble.ts'
import {
  anyIsolation,
  dataFolderOf,
  noWarmPool,
  portOf,
  repoFolder,
  seat,
  startWarren,
  type Warren,
} from '../support/warren.ts'

const domain = 'box.warren.test'
const port = portOf(anyIsolation, seat)
const httpPort = port + 9
/** Renewed after two thirds of it. */
const validSeconds = 120
const folder = mkdtempSync(join(tmpdir(), 'public-address-'))
const rootFile = join(folder, 'root.pem')
let pebble: Pebble
let names: NameServer

before(async () => {
  pebble = await startPebble({ folder, firstPort: port + 10, httpPort, validSeconds })
  writeFileSync(rootFile, await pebble.readRoot())
  names = await startNameServer(domain)
})
after(async () => {
  pebble?.close()
  await names?.close().catch(() => {})
  rmSync(folder, { recursive: true, force: true })
})

function start(settings: Record<string, string>, keepData = false): Promise<Warren> {
  if (!keepData) rmSync(join(dataFolderOf(anyIsolation, 'public'), 'acme'), { recursive: true, force: true })
  return startWarren(anyIsolation, {
    keepData,
    name: 'public',
    settings: {
      ...noWarmPool,
      WARREN_DOMAIN: domain,
      WARREN_ACME: pebble.directory,
      WARREN_EXTRA_CA: pebble.trustFile,
      WARREN_ACME_HTTP_PORT: String(httpPort),
      ...settings,
    },
  })
}

/** Connects as a client that trusts the authority and no other. */
function open(servername: string): Promise<TLSSocket> {
  return new Promise((resolve, reject) => {
    const socket = connect({ host: '127.0.0.1', port, servername, ca: readFileSync(rootFile) }, () => {
      resolve(socket)
    })
    socket.once('error', reject)
  })
}

async function serialOf(servername: string): Promise<string> {
  const socket = await open(servername)
  const { serialNumber } = socket.getPeerCertificate()
  socket.destroy()
  return serialNumber
}

async function runClient(
  { dataFolder }: Warren,
  server = names,
  trusted = rootFile,
): Promise<Record<string, string>> {
  const command = [join(repoFolder, 'bin/warren'), ['env', '--json']] as const
  const env = { PATH: process.env.PATH, WARREN_DATA_DIR: dataFolder }
  const printed = JSON.parse(execFileSync(...command, { encoding: 'utf8', env }))
  const program = [join(import.meta.dirname, 'clients/client.ts'), repoFolder, 'e2b']
  const child = server.spawn(join(repoFolder, 'bin/node'), program, {
    PATH: process.env.PATH,
    HOME: process.env.HOME,
    NODE_EXTRA_CA_CERTS: trusted,
    ...printed,
  })
  let output = ''
  child.stdout?.on('data', (chunk) => (output += chunk))
  child.stderr?.on('data', (chunk) => (output += chunk))
  const code = await new Promise((resolve) => child.once('close', resolve))
  assert.equal(code, 0, output)
  assert.match(output, /^done$/m)
  return printed
}

const log = ({ logFile }: Warren) => readFileSync(logFile, 'utf8')
const within = { timeout: 600_000 }

describe('a Warren that proves its domain by DNS', within, () => {
  let warren: Warren
  const settings = () => ({ WARREN_ACME_DNS: pebble.dnsProgram })
  after(() => warren?.stop())

  it('serves the API and every sandbox with a certificate that clients trust', async () => {
    warren = await start(settings())
    await eventually(async () => void (await serialOf(`49983-any.${domain}`)))
    assert.equal(await serialOf(`api.${domain}`), await serialOf(`8000-other.${domain}`))
    const printed = await runClient(warren)
    assert.deepEqual(Object.keys(printed).sort(), ['E2B_API_KEY', 'E2B_DOMAIN'])
  })

  it('keeps it over a crash, and asks for no other', async () => {
    const serial = await serialOf(`api.${domain}`)
    const orders = pebble.countOrders()
    await warren.crash()
    warren = await start(settings(), true)
    assert.equal(await serialOf(`api.${domain}`), serial)
    assert.equal(pebble.countOrders(), orders)
  })

  it('renews it without a restart, and cuts no connection', async () => {
    const serial = await serialOf(`api.${domain}`)
    const opened = await open(`api.${domain}`)
    opened.on('error', () => {})
    await eventually(async () => assert.notEqual(await serialOf(`api.${domain}`), serial))
    assert.equal(opened.destroyed, false)
    opened.destroy()
    await runClient(warren)
  })

  it('says in the log and to the doctor why it got none, and waits before it asks again', async () => {
    await warren.stop()
    writeFileSync(pebble.muteFile, '')
    try {
      warren = await start(settings())
      await eventually(() => assert.match(log(warren), /got no TLS certificate/))
      const orders = pebble.countOrders()
      const doctor = doctorOf(warren, settings())
      assert.match(doctor, /not there yet; 1 try failed: /)
      assert.match(doctor, /WARREN_ACME_DNS by hand/)
      await warren.crash()
      warren = await start(settings(), true)
      await eventually(() => assert.ok(existsSync(join(warren.dataFolder, 'acme/trouble.json'))))
      assert.equal(pebble.countOrders(), orders)
    } finally {
      rmSync(pebble.muteFile, { force: true })
    }
  })
})

function doctorOf({ dataFolder }: Warren, settings: Record<string, string>): string {
  const env = {
    PATH: process.env.PATH,
    WARREN_DATA_DIR: dataFolder,
    WARREN_DOMAIN: domain,
    WARREN_ACME: pebble.directory,
    ...settings,
  }
  const printed = execFileSync('sh', ['-c', '"$0" doctor; true', join(repoFolder, 'bin/warren')], {
    encoding: 'utf8',
    env,
  })
  return printed
}

describe('a Warren that proves its domain by HTTP', within, () => {
  let warren: Warren
  after(() => warren?.stop())

  it('serves the name of the API, by which clients reach sandboxes too', async () => {
    warren = await start({})
    await eventually(async () => void (await serialOf(`api.${domain}`)))
    await assert.rejects(serialOf(`8000-other.${domain}`), /altnames/)
    const printed = await runClient(warren)
    assert.deepEqual(
      [printed.E2B_API_URL, printed.E2B_SANDBOX_URL],
      [`https://api.${domain}:${port}`, `https://sandbox.${domain}:${port}`],
    )
    assert.equal(printed.E2B_DOMAIN, undefined)
  })

  it('leads browsers from http to https', async () => {
    const args = ['-s', '-o', '/dev/null', '-w', '%{http_code} %{redirect_url}', '-H', `Host: api.${domain}`]
    const said = execFileSync('curl', [...args, `http://127.0.0.1:${httpPort}/dashboard`], {
      encoding: 'utf8',
    })
    assert.equal(said, `308 https://api.${domain}:${port}/dashboard`)
  })
})

describe(
  'a Warren without a domain, by a name with the address in it and an authority of its own',
  within,
  () => {
    const lan = '127-0-0-1.sslip.io'
    let warren: Warren
    let lanNames: NameServer
    after(async () => {
      await warren?.stop()
      await lanNames?.close()
    })

    it('serves unmodified clients that trust its one file', async () => {
      const out = join(folder, 'lan')
      const env = { PATH: process.env.PATH }
      const args = ['cert', '--domain', lan, '--out', out, '--json']
      const { settings, trust } = JSON.parse(
        execFileSync(join(repoFolder, 'bin/warren'), args, { encoding: 'utf8', env }),
      )
      // A name server of the test stands for that of the internet; only one can be asked at a time.
      await names.close()
      lanNames = await startNameServer(lan)
      warren = await startWarren(anyIsolation, { name: 'public', settings: { ...noWarmPool, ...settings } })
      await runClient(warren, lanNames, trust.NODE_EXTRA_CA_CERTS)
    })
  },
)
