import assert from 'node:assert/strict'
import { it } from 'node:test'
import { loadConfig } from '../config/config.ts'
import { exposeCommand, outerAddresses } from './expose-command.ts'

const records: Record<string, string[]> = {
  'api.box.example': ['203.0.113.5'],
  'sandbox.box.example': ['198.51.100.7'],
  'api.10-1-2-3.sslip.io': ['10.1.2.3'],
  '8000-any.10-1-2-3.sslip.io': ['10.1.2.3'],
}

function expose(args: string[], { env = {}, usedPorts = [] as number[] } = {}) {
  return exposeCommand(args, {
    config: loadConfig({ WARREN_DATA_DIR: '/data', ...env }),
    lookUp: async (name) => records[name] ?? Promise.reject(new Error('ENOTFOUND')),
    addresses: ['10.1.2.3', '203.0.113.5'],
    portProblem: async (port) => (usedPorts.includes(port) ? `Port ${port} is taken by nginx.` : undefined),
  })
}

it('with a domain it names the settings of a first try, and looks at both names and ports', async () => {
  const { text, exitCode } = await expose(['--domain', 'box.example', '--email', 'ops@box.example'])
  assert.equal(exitCode, 0)
  assert.match(text, /^ok {4}api.box.example leads to 203.0.113.5, this machine$/m)
  assert.match(text, /^ok {4}sandbox.box.example leads to 198.51.100.7: that must pass the ports on/m)
  assert.match(text, /^ok {4}port 80 is free$/m)
  for (const line of ['WARREN_ACME=staging', 'WARREN_ACME_EMAIL=ops@box.example', 'WARREN_HOST=0.0.0.0'])
    assert.match(text, new RegExp(`^  export ${line}$`, 'm'))
  assert.match(text, /getHost\(\) and links to files need --dns/)
})

it('says what is not ready, with exit code 1', async () => {
  const args = ['--domain', 'box.example', '--dns', '/set', '--production', '--json']
  const { text, exitCode } = await expose(args, { usedPorts: [443, 80] })
  const { settings, checks } = JSON.parse(text)
  assert.equal(exitCode, 1)
  assert.deepEqual([settings.WARREN_ACME, settings.WARREN_ACME_DNS], ['production', '/set'])
  const missing = checks.filter(({ ready }: { ready: boolean }) => !ready)
  assert.deepEqual(
    missing.map((one: { text: string }) => one.text.slice(0, 31)),
    ['8000-any.box.example has no add', 'Port 443 is taken by nginx.'],
  )
})

it('takes the domain of the settings, and the port of proofs', async () => {
  const env = { WARREN_DOMAIN: 'box.example:8443', WARREN_ACME_HTTP_PORT: '8080' }
  const { text } = await expose([], { env, usedPorts: [8080] })
  assert.match(text, /WARREN_DOMAIN=box.example$/m)
  assert.match(text, /^not {3}Port 8080 is taken/m)
})

it('without a domain it makes a name for the LAN from the address, with an authority of one file', async () => {
  const { text, exitCode } = await expose([])
  assert.equal(exitCode, 0)
  assert.match(text, /WARREN_DOMAIN=10-1-2-3.sslip.io$/m)
  assert.match(text, /bin\/warren cert --domain 10-1-2-3.sslip.io/)
  assert.match(text, /Copy \/data\/tls\/ca.pem to the clients/)
})

it('refuses what is no domain, and shows its help', async () => {
  await assert.rejects(expose(['--domain', 'box']), /--domain is 'box', but must be a host name/)
  await assert.rejects(expose(['box.example']), /Unknown argument 'box.example'/)
  const { text } = await expose(['--help'])
  for (const line of text.split('\n')) assert.ok(line.length <= 80, line)
})

it('takes addresses that others reach, and none of loopback, sandboxes or containers', () => {
  const at = (address: string, internal = false) => [
    { address, internal, family: 'IPv4' as const, netmask: '', mac: '', cidr: null },
  ]
  const found = outerAddresses({
    lo: at('127.0.0.1', true),
    eth0: at('192.168.1.5'),
    w8fda702: at('10.204.0.9'),
    docker0: at('172.17.0.1'),
    wlan0: at('192.168.2.9'),
  })
  assert.deepEqual(found, ['192.168.1.5', '192.168.2.9'])
})
