import assert from 'node:assert/strict'
import test from 'node:test'
import { loadConfig, showSettings } from './config.ts'

const refusal = (env: Record<string, string>) => {
  try {
    loadConfig(env)
  } catch (error) {
    return (error as Error).message
  }
  return assert.fail('the settings were taken')
}

test('an empty environment gives the documented defaults', () => {
  const config = loadConfig({})
  assert.equal(config.host, '127.0.0.1')
  assert.equal(config.port, 3000)
  assert.equal(config.dataDir, '/var/lib/warren')
  assert.equal(config.domain, null)
  assert.equal(config.isolation, 'auto')
  assert.deepEqual(config.dnsServers, ['8.8.8.8', '1.1.1.1'])
  assert.deepEqual([config.defaultCPU, config.defaultMemoryMB, config.defaultDiskMB], [2, 1024, 10240])
  assert.deepEqual([config.maxCPU, config.maxMemoryMB, config.maxDiskMB], [8, 8192, 25600])
})

test('the config cannot be changed after it was read', () => {
  const config = loadConfig({}) as { port: number }
  assert.throws(() => {
    config.port = 1
  }, TypeError)
})

test('a misspelt setting stops the start and names the nearest one', () => {
  assert.match(refusal({ WARREN_PROT: '1' }), /no setting WARREN_PROT\. Did you mean WARREN_PORT\?/)
  assert.doesNotMatch(refusal({ WARREN_SOMETHING_ELSE_ENTIRELY: '1' }), /Did you mean/)
})

test('a setting that was removed stops the start and says what to do instead', () => {
  assert.match(refusal({ WARREN_POOL_SIZE: '8' }), /^There is no setting WARREN_POOL_SIZE any more\. Remove/)
  assert.match(refusal({ WARREN_STARTS_PER_CPU: '2' }), /WARREN_STARTS_PER_CPU any more\. Remove/)
  assert.match(refusal({ WARREN_REGISTRY_CA: '/ca.pem' }), /any more\. Set WARREN_EXTRA_CA to a file/)
})

test('variables of the test runner and of other programs are ignored', () => {
  loadConfig({ WARREN_TEST_REQUIRE: 'all', PATH: '/bin', E2B_API_KEY: 'x' })
})

test('an empty variable means the default', () => {
  assert.equal(loadConfig({ WARREN_PORT: '' }).port, 3000)
})

for (const [name, value, says] of [
  ['WARREN_PORT', '99999', /whole number from 1 to 65535/],
  ['WARREN_PORT', '80x', /whole number/],
  ['WARREN_HOST', 'localhost', /IP address/],
  ['WARREN_DATA_DIR', 'data', /absolute path/],
  ['WARREN_DATABASE_URL', 'mysql://x/y', /postgres:\/\//],
  ['WARREN_DOMAIN', 'no_good.example', /host name/],
  ['WARREN_DOMAIN', 'single', /at least one dot/],
  ['WARREN_ISOLATION', 'docker', /one of auto, gvisor, container/],
  ['WARREN_SUBNET', '10.213.0.1/16', /without host bits/],
  ['WARREN_SUBNET', '8.8.0.0/16', /private/],
  ['WARREN_SUBNET', '10.213.0.0/30', /between \/8 and \/24/],
  ['WARREN_SUBNET', '10.300.0.0/16', /IPv4 network/],
  ['WARREN_DNS_SERVERS', '1.1.1.1,dns.example', /IPv4 addresses/],
  ['WARREN_LOG_LEVEL', 'loud', /one of trace/],
] as const) {
  test(`${name}=${value} is refused with what is allowed`, () => {
    const message = refusal({ [name]: value })
    assert.match(message, says)
    assert.ok(message.startsWith(`${name} is '${value}'`))
  })
}

test('WARREN_ISOLATION takes container and containers for the same', () => {
  for (const text of ['container', 'containers'])
    assert.equal(loadConfig({ WARREN_ISOLATION: text }).isolation, 'container')
})

test('settings that contradict each other are rejected together', () => {
  assert.match(refusal({ WARREN_TLS_CERT: '/c.pem' }), /belong together/)
  assert.match(refusal({ WARREN_TLS_CERT: '/c.pem', WARREN_TLS_KEY: '/k.pem' }), /needs WARREN_DOMAIN/)
  assert.match(refusal({ WARREN_DEFAULT_CPU: '16' }), /WARREN_MAX_CPU \(8\)/)
})

test('a domain may carry a port and a subnet may be any private one', () => {
  assert.equal(loadConfig({ WARREN_DOMAIN: 'E2B.test:8443' }).domain, 'e2b.test:8443')
  for (const subnet of ['10.0.0.0/8', '172.20.0.0/16', '192.168.7.0/24', '100.64.0.0/12']) {
    assert.equal(loadConfig({ WARREN_SUBNET: subnet }).subnet, subnet)
  }
})

test('a domain that Warren serves with TLS on another port than 443 carries that port', () => {
  const tls = { WARREN_DOMAIN: 'box.example', WARREN_TLS_CERT: '/c.pem', WARREN_TLS_KEY: '/k.pem' }
  assert.equal(loadConfig({ ...tls, WARREN_PORT: '8443' }).domain, 'box.example:8443')
  assert.equal(loadConfig({ ...tls, WARREN_PORT: '443' }).domain, 'box.example')
  assert.equal(loadConfig({ ...tls, WARREN_DOMAIN: 'box.example:443' }).domain, 'box.example:443')
  assert.equal(loadConfig({ WARREN_DOMAIN: 'box.example' }).domain, 'box.example')
})

test('the settings command shows the origin of a value and hides passwords', () => {
  const shown = showSettings({ WARREN_DATABASE_URL: 'postgres://me:secret@db:5432/warren' })
  const database = shown.find((one) => one.name === 'WARREN_DATABASE_URL')!
  assert.equal(database.value, 'postgres://me:***@db:5432/warren')
  assert.equal(database.from, 'environment')
  const mirrors = 'docker.io=me:s%2Fecret@hub.example/x,*=you:other@all.example,debian=folder:/srv'
  const [mirrorSettings] = showSettings({ WARREN_REGISTRY_MIRRORS: mirrors }).filter(({ name }) =>
    /MIRRORS/.test(name),
  )
  assert.equal(
    mirrorSettings?.value,
    'docker.io=me:***@hub.example/x,*=you:***@all.example,debian=folder:/srv',
  )
  for (const wrong of [
    { WARREN_REGISTRY_MIRRORS: 'docker.io=me:sec,ret@hub.example' },
    { WARREN_DATABASE_URL: 'mysql://me:sec@ret@db' },
  ]) {
    assert.throws(
      () => loadConfig(wrong),
      ({ message }: Error) => /me:\*\*\*@/.test(message) && !/sec|ret/.test(message),
    )
  }
  assert.equal(shown.find((one) => one.name === 'WARREN_PORT')!.from, 'default')
})
