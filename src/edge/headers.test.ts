import assert from 'node:assert/strict'
import { IncomingMessage } from 'node:http'
import { Socket } from 'node:net'
import test from 'node:test'
import { hopHeader } from '../contract/constants.ts'
import { newAccessToken, newApiKey } from '../core/team/team.ts'
import { randomHex } from '../lib/ids.ts'
import { headersFromSandbox, headForSandbox } from './headers.ts'

test('a sandbox cannot set the headers that only the nodes of a cluster send to each other', () => {
  const raw = ['X-Own', 'kept', 'Warren-Refusal', 'not the owner', 'Warren-Made', 'a b']
  for (const ownHost of [null, '3000-a.example.com']) {
    const headers = headersFromSandbox(raw, { ownHost, keepsTrailers: false, requestID: 'r' })
    assert.ok(headers.includes('X-Own'))
    for (const name of [hopHeader.refusal, hopHeader.made])
      assert.ok(!headers.some((text) => text.toLowerCase() === name), `${name} ${ownHost}`)
  }
})

const ofSandbox = randomHex(32)

const headFor = (port: number, ...headers: string[]): string[] => {
  const request = requestWith('Host', '3000-a.example.com', ...headers)
  const options = { ownHost: '3000-a.example.com', awaitsContinue: false, upgrade: false }
  return headForSandbox(request, { ...options, port, ownTokens: [ofSandbox] }).headers
}

function requestWith(...headers: string[]): IncomingMessage {
  const request = new IncomingMessage(new Socket())
  request.method = 'GET'
  request.rawHeaders = headers
  for (let at = 0; at < request.rawHeaders.length; at += 2) {
    request.headers[request.rawHeaders[at]!.toLowerCase()] = request.rawHeaders[at + 1]
  }
  return request
}

test('a sandbox does not get the credentials for Warren that a client sends', () => {
  const sent = [
    ...['X-API-Key', newApiKey(), 'x-api-key', ` ${newApiKey()} `, 'X-Admin-Token', randomHex(32)],
    ...['Authorization', `Bearer ${newAccessToken()}`, 'X-Own', 'kept'],
  ]
  const headers = headFor(3000, ...sent)
  assert.ok(headers.includes('X-Own') && headers.includes('kept'))
  assert.deepEqual(
    headers.filter((text) => /api-key|admin|authorization|e2b_|^[0-9a-f]{64}$/i.test(text)),
    [],
  )
})

const basic = (text: string) => `Basic ${Buffer.from(text).toString('base64')}`

test('a service gets no credential for Warren or for its sandbox, in whatever header and scheme it comes', () => {
  for (const token of [newApiKey(), newAccessToken(), ofSandbox]) {
    const sent = [
      ...['Authorization', `Bearer ${token}`, 'authorization', `bearer   ${token} `, 'Authorization', token],
      ...['Authorization', basic(`user:${token}`), 'Proxy-Authorization', basic(`${token}:`)],
      ...['Authorization', `Digest username="a", response="${token}"`, 'X-Access-Token', token],
      ...['X-Any-Token', token, 'Sec-WebSocket-Protocol', `chat, ${token}`, 'Cookie', `a=1; key=${token}`],
    ]
    const headers = headFor(3000, 'X-Own', 'kept', ...sent)
    const text = headers
      .map((each) => `${each} ${Buffer.from(each.replace(/^basic /i, ''), 'base64')}`)
      .join()
    assert.ok(headers.includes('X-Own') && headers.includes('kept'))
    assert.ok(!text.includes(token), text)
  }
})

test('an agent and a code interpreter get the token of their sandbox, and no credential for Warren', () => {
  const key = newApiKey()
  for (const port of [49_983, 49_999]) {
    const headers = headFor(port, 'X-Access-Token', ofSandbox, 'Authorization', basic(`root:${key}`))
    assert.ok(headers.includes(ofSandbox), `${port}`)
    assert.ok(!headers.includes('Authorization'), `${port}`)
  }
})

test('a service does not get the client ID that stands for a token in host names', () => {
  const clientID = randomHex(16)
  const options = { ownHost: `3000-a-${clientID}.example.com`, awaitsContinue: false, upgrade: false }
  for (const [port, isSeen] of [
    [3000, false],
    [49_983, true],
  ] as const) {
    const request = requestWith('Host', options.ownHost)
    const { headers } = headForSandbox(request, { ...options, port, hostToken: clientID })
    assert.equal(
      headers.some((text) => text.includes(clientID)),
      isSeen,
      `${headers}`,
    )
    if (!isSeen) assert.ok(headers.includes('3000-a-6532622b.example.com'), `${headers}`)
  }
})

test('a sandbox gets the credentials for its own service, and its agent gets the user of a request', () => {
  const sent = [
    'X-API-Key',
    'key-of-the-service',
    'X-Admin-Token',
    'let me in',
    'Authorization',
    'Basic cm9vdDo=',
  ]
  const headers = headFor(49_983, ...sent, 'X-Access-Token', 'of the sandbox')
  for (const text of [...sent, 'of the sandbox']) assert.ok(headers.includes(text), text)
})
