import assert from 'node:assert/strict'
import test from 'node:test'
import { hopHeader } from '../contract/constants.ts'
import { headersFromSandbox } from './headers.ts'

test('a sandbox cannot say what only the nodes of a cluster say to each other', () => {
  const raw = ['X-Own', 'kept', 'Warren-Refusal', 'not the owner', 'Warren-Made', 'a b']
  for (const ownHost of [null, '3000-a.example.com']) {
    const headers = headersFromSandbox(raw, { ownHost, keepsTrailers: false, requestID: 'r' })
    assert.ok(headers.includes('X-Own'))
    for (const name of [hopHeader.refusal, hopHeader.made])
      assert.ok(!headers.some((text) => text.toLowerCase() === name), `${name} ${ownHost}`)
  }
})
