/** Which registries Warren contacts, and which of them get a password. */
import assert from 'node:assert/strict'
import type { IncomingMessage, ServerResponse } from 'node:http'
import { test } from 'node:test'
import type { RegistryCredentials } from '../core/ports/images.ts'
import { isAppError } from '../lib/app-error.ts'
import { ManualClock } from '../lib/clock.ts'
import { testImages, testRegistry } from './images-fixture.ts'
import { addImage, type FakeRegistry, fileLayer, selfSigned } from './registry-fixture.ts'

const secret = 'pa55:wörd'
const login: RegistryCredentials = { type: 'registry', username: 'me', password: secret }
const basic = (username: string, password: string) =>
  `Basic ${Buffer.from(`${username}:${password}`).toString('base64')}`
const tls = selfSigned()
const trusting = { certificateAuthorities: [tls.cert] }

function requireBasic(registry: FakeRegistry, expected: string): void {
  registry.intercept = (request, response) =>
    request.headers.authorization !== expected && challenge(response, 'Basic realm="x"')
}

function challenge(response: ServerResponse, header: string): true {
  response.writeHead(401, { 'WWW-Authenticate': header }).end(`{"errors":[{"message":"${secret}"}]}`)
  return true
}

function requireToken(registry: FakeRegistry, realm: string, token: () => string): void {
  registry.intercept = (request, response) =>
    request.headers.authorization !== `Bearer ${token()}` &&
    challenge(response, `Bearer realm="${realm}",service="the, registry",scope="repository:team/x:pull"`)
}

const authorizations = (registry: FakeRegistry) =>
  registry.requests.map(({ headers }) => headers.authorization)
const nothingSecret = (error: unknown, lines: string[]) => {
  const output = [String(error), (error as Error).message, ...lines].join('\n')
  for (const hidden of [secret, Buffer.from(`me:${secret}`).toString('base64')])
    assert.ok(!output.includes(hidden), output)
}

test('a registry gets the password if it asks for it, and only then', async (t) => {
  const registry = await testRegistry(t)
  addImage(registry, 'latest', { layers: [fileLayer('a', 'a')] })
  const { pull, lines } = await testImages(t)
  await pull(`${registry.host}/team/x`, login)
  assert.ok(authorizations(registry).every((value) => value === undefined))
  requireBasic(registry, basic('me', secret))
  await pull(`${registry.host}/team/x`, login)
  for (const credentials of [undefined, { ...login, password: 'wrong' }]) {
    const error = await pull(`${registry.host}/team/x`, credentials).catch((error) => error)
    assert.ok(isAppError(error, 'permission_denied'))
    nothingSecret(error, lines)
  }
})

test('a token is fetched with the password, used, and fetched again when it has expired', async (t) => {
  const registry = await testRegistry(t)
  const tokens = await testRegistry(t, tls)
  addImage(registry, 'latest', { layers: [fileLayer('a', 'a'), fileLayer('b', 'b')] })
  let issued = 0
  tokens.intercept = (request, response) => {
    const url = new URL(request.url!, 'http://x')
    assert.deepEqual(
      [...url.searchParams],
      [
        ['account', 'y'],
        ['service', 'the, registry'],
        ['scope', 'repository:team/x:pull'],
      ],
    )
    const known = request.headers.authorization === basic('me', secret)
    response
      .writeHead(known ? 200 : 401)
      .end(JSON.stringify({ [issued % 2 ? 'token' : 'access_token']: `t${++issued}` }))
    return true
  }
  requireToken(registry, `https://${tokens.host}/token?account=y`, () =>
    registry.requests.length > 6 ? 't2' : 't1',
  )
  const { pull, lines } = await testImages(t, trusting)
  await pull(`${registry.host}/team/x`, login)
  assert.ok(!authorizations(registry).some((value) => value?.startsWith('Basic')))
  const error = await pull(`${registry.host}/team/x`).catch((error) => error)
  assert.ok(isAppError(error, 'permission_denied'))
  nothingSecret(error, lines)
})

test('a password is not sent to a token server without TLS', async (t) => {
  const registry = await testRegistry(t)
  const tokens = await testRegistry(t)
  requireToken(registry, `http://${tokens.host}/token`, () => 't')
  const { pull } = await testImages(t)
  await assert.rejects(pull(`${registry.host}/team/x`, login), /token server without encryption/)
  assert.equal(tokens.requests.length, 0)
})

test('a redirect is followed without the password', async (t) => {
  const registry = await testRegistry(t)
  const storage = await testRegistry(t)
  const layer = fileLayer('a', 'a')
  addImage(registry, 'latest', { layers: [layer] })
  storage.blobs = registry.blobs
  registry.intercept = (request, response) => {
    if (request.headers.authorization !== basic('me', secret)) return challenge(response, 'Basic')
    if (!request.url!.includes('/blobs/')) return false
    const [, digest] = request.url!.split('/blobs/')
    response.writeHead(307, { Location: `http://user:pass@${storage.host}/blobs/${digest}` }).end()
    return true
  }
  const { pull } = await testImages(t)
  await pull(`${registry.host}/team/x`, login)
  assert.equal(storage.requests.length, 2)
  assert.deepEqual(authorizations(storage), [undefined, undefined])
})

test('a redirect to an internal address, an endless one, and one without TLS are not followed', async (t) => {
  const registry = await testRegistry(t, tls)
  const inside = await testRegistry(t)
  const { pull } = await testImages(t, { ...trusting, allowPrivateRegistries: [registry.host] })
  const redirectTo = (location: string) => {
    registry.intercept = (_request, response) => !!response.writeHead(302, { Location: location }).end()
  }
  for (const target of [
    'https://169.254.169.254/latest/',
    'https://[::1]/',
    'https://0x7f000001/',
    `https://${inside.host}/`,
  ]) {
    redirectTo(target)
    await assert.rejects(pull(`${registry.host}/x`), /internal network/)
  }
  redirectTo(`http://${registry.host}/v2/`)
  await assert.rejects(pull(`${registry.host}/x`), /without encryption/)
  redirectTo(`https://${registry.host}/again`)
  await assert.rejects(pull(`${registry.host}/x`), /redirects too often/)
  redirectTo('file:///etc/passwd')
  await assert.rejects(pull(`${registry.host}/x`), /without encryption/)
  assert.equal(inside.requests.length, 0)
})

test('a token server at an internal address is not asked', async (t) => {
  const registry = await testRegistry(t)
  const inside = await testRegistry(t, tls)
  requireToken(registry, `https://${inside.host}/token`, () => 't')
  const { pull } = await testImages(t, { ...trusting, allowPrivateRegistries: [registry.host] })
  await assert.rejects(pull(`${registry.host}/x`, login), /internal network/)
  assert.equal(inside.requests.length, 0)
})

test('a registry at an internal address is rejected unless the operator allows it', async (t) => {
  const registry = await testRegistry(t)
  addImage(registry, 'latest', { layers: [] })
  const lookup = async (host: string) => [
    { address: host === 'inside.test' ? '127.0.0.1' : '10.1.2.3', family: 4 },
  ]
  const port = registry.host.split(':')[1]
  const closed = await testImages(t, { allowPrivateRegistries: ['other.test', `127.0.0.1:1`], lookup })
  const names = [
    registry.host,
    `localhost:${port}`,
    `inside.test:${port}`,
    `2130706433:${port}`,
    `0x7f.1:${port}`,
    `[::1]:${port}`,
    `[::ffff:127.0.0.1]:${port}`,
  ]
  for (const name of [...names, '169.254.169.254', '10.0.0.1:5000', 'metadata.google.internal']) {
    const error = await closed.pull(`${name}/x`).catch((error) => error)
    assert.ok(isAppError(error, 'permission_denied'), `${name}: ${error}`)
  }
  assert.equal(registry.requests.length, 0)
  for (const allowed of ['*', 'inside.test', `inside.test:${port}`]) {
    const open = await testImages(t, { allowPrivateRegistries: [allowed], lookup })
    await open.pull(`inside.test:${port}/x`)
  }
})

test('a name is resolved once, and an address that it gets later is not asked', async (t) => {
  const registry = await testRegistry(t)
  addImage(registry, 'latest', { layers: [fileLayer('a', 'a')] })
  let lookups = 0
  const lookup = async () => [{ address: lookups++ === 0 ? '127.0.0.1' : '127.0.0.2', family: 4 }]
  const { pull } = await testImages(t, { allowPrivateRegistries: ['rebind.test'], lookup })
  await pull(`rebind.test:${registry.host.split(':')[1]}/x`)
  assert.equal(lookups, 1)
})

test('one internal address among public ones is enough to reject a registry', async (t) => {
  const lookup = async () => [
    { address: '93.184.216.34', family: 4 },
    { address: '10.0.0.1', family: 4 },
  ]
  const { pull } = await testImages(t, { lookup })
  await assert.rejects(pull('mixed.test/x'), /internal network/)
})

test('a registry must prove its identity, and one without TLS must be listed', async (t) => {
  const [secure, plain] = [await testRegistry(t, tls), await testRegistry(t)]
  for (const registry of [secure, plain]) addImage(registry, 'latest', { layers: [] })
  const lookup = async () => [{ address: '127.0.0.1', family: 4 }]
  const named = (registry: FakeRegistry, host = 'registry.test') => `${host}:${registry.host.split(':')[1]}/x`
  const allowed = { allowPrivateRegistries: ['*'], lookup }
  await (await testImages(t, { ...allowed, ...trusting })).pull(named(secure))
  await assert.rejects((await testImages(t, allowed)).pull(named(secure)), /has no valid certificate/)
  await assert.rejects(
    (await testImages(t, { ...allowed, ...trusting })).pull(named(secure, 'other.test')),
    /has no valid certificate/,
  )
  // On loopback nobody is in between.
  await (await testImages(t, allowed)).pull(named(plain))
  await (await testImages(t, { ...allowed, insecureRegistries: ['registry.test'] })).pull(named(plain))
})

test('a service account becomes the password of _json_key', async (t) => {
  const registry = await testRegistry(t)
  addImage(registry, 'latest', { layers: [] })
  const serviceAccountJSON = '{"private_key":"k"}'
  requireBasic(registry, basic('_json_key', serviceAccountJSON))
  const { pull } = await testImages(t)
  await pull(`${registry.host}/x`, { type: 'gcp', serviceAccountJSON })
  await assert.rejects(pull(`${registry.host}/x`, { type: 'gcp', serviceAccountJSON: 'no json' }), /not JSON/)
})

test('AWS keys become a password of ECR, asked for with a signature', async (t) => {
  const registry = await testRegistry(t)
  addImage(registry, 'latest', { layers: [] })
  requireBasic(registry, basic('AWS', 'token'))
  const ecr = await testRegistry(t)
  const seen: IncomingMessage[] = []
  ecr.intercept = (request, response) => {
    seen.push(request)
    const authorizationToken = Buffer.from('AWS:token').toString('base64')
    response.end(JSON.stringify({ authorizationData: [{ authorizationToken }] }))
    return true
  }
  const clock = new ManualClock(Date.UTC(2026, 0, 2, 3, 4, 5))
  const { pull, lines } = await testImages(t, {
    clock,
    ecrEndpoint: (region) => `http://${ecr.host}/?${region}`,
  })
  const keys = {
    type: 'aws',
    accessKeyID: 'AKID',
    secretAccessKey: 'topsecret',
    region: 'eu-central-1',
  } as const
  await pull(`${registry.host}/x`, keys)
  const { headers, method } = seen[0]!
  assert.equal(method, 'POST')
  assert.equal(headers['x-amz-target'], 'AmazonEC2ContainerRegistry_V20150921.GetAuthorizationToken')
  assert.match(
    headers.authorization!,
    /^AWS4-HMAC-SHA256 Credential=AKID\/20260102\/eu-central-1\/ecr\/aws4_request, SignedHeaders=content-type;host;x-amz-date;x-amz-target, Signature=[0-9a-f]{64}$/,
  )
  for (const region of ['evil.com/', 'x', 'eu-central-1.evil.com']) {
    await assert.rejects(pull(`${registry.host}/x`, { ...keys, region }), /region/)
  }
  ecr.intercept = (_request, response) => !!response.writeHead(400).end('{"message":"topsecret"}')
  const error = await pull(`${registry.host}/x`, keys).catch((error) => error)
  assert.ok(isAppError(error, 'permission_denied') && !error.message.includes('topsecret'))
  assert.ok(!lines.join().includes('topsecret'))
})

test('a mirror gets the password of its operator, and none that was meant for the original registry', async (t) => {
  const mirror = await testRegistry(t)
  addImage(mirror, '12', { layers: [] })
  const { pull } = await testImages(t, {
    allowPrivateRegistries: [],
    mirrors: { 'docker.io': `${mirror.host}/hub` },
  })
  await pull('debian:12', login)
  assert.ok(mirror.requests.some(({ path }) => path === '/v2/hub/library/debian/manifests/12'))
  requireBasic(mirror, basic('me', secret))
  await assert.rejects(pull('debian:12', login), { code: 'permission_denied' })
  assert.ok(authorizations(mirror).every((value) => value === undefined))
  const named = { mirrors: { 'docker.io': `me:${encodeURIComponent(secret)}@${mirror.host}/hub` } }
  const { pull: pullNamed, lines } = await testImages(t, { allowPrivateRegistries: [], ...named })
  const mine = { ...login, username: 'mine' }
  await pullNamed('debian:12', mine)
  assert.ok(authorizations(mirror).includes(basic('me', secret)))
  assert.ok(!authorizations(mirror).includes(basic('mine', secret)))
  requireBasic(mirror, basic('me', 'changed'))
  const refused = await pullNamed('debian:12', mine).catch((error) => error)
  assert.match(refused.message, /It is a mirror: an operator can give it a login/)
  nothingSecret(refused, lines)
  // What the operator named as a mirror is not open for users to name.
  await assert.rejects(pull(`${mirror.host}/hub/library/debian:12`), /internal network/)
})
