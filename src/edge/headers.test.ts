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

const headFor = (...headers: string[]): string[] => {
  const request = new IncomingMessage(new Socket())
  request.method = 'GET'
  request.rawHeaders = ['Host', '3000-a.example.com', ...headers]
  for (let at = 0; at < request.rawHeaders.length; at += 2) {
    request.headers[request.rawHeaders[at]!.toLowerCase()] = request.rawHeaders[at + 1]
  }
  const options = { ownHost: '3000-a.example.com', awaitsContinue: false, upgrade: false }
  return headForSandbox(request, options).headers
}

test('a sandbox does not get the credentials for Warren that a client sends', () => {
  const sent = [
    ...['X-API-Key', newApiKey(), 'x-api-key', ` ${newApiKey()} `, 'X-Admin-Token', randomHex(32)],
    ...['Authorization', `Bearer ${newAccessToken()}`, 'X-Own', 'kept'],
  ]
  const headers = headFor(...sent)
  assert.ok(headers.includes('X-Own') && headers.includes('kept'))
  assert.deepEqual(
    headers.filter((text) => /api-key|admin|authorization|e2b_|^[0-9a-f]{64}$/i.test(text)),
    [],
  )
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
  const headers = headFor(...sent, 'X-Access-Token', 'of the sandbox')
  for (const text of [...sent, 'of the sandbox']) assert.ok(headers.includes(text), text)
})
