import assert from 'node:assert/strict'
import { test } from 'node:test'
import type { Forwarded } from '../core/cluster/forwarder.ts'
import type { HttpExchange } from '../lib/http-relay/http-relay.ts'
import { silentLog } from '../lib/log.ts'
import type { SandboxDestination } from './host.ts'
import { PeerTraffic } from './peer-traffic.ts'

const exchange = { request: { headers: {} } } as unknown as HttpExchange
const destination = { sandboxID: 'a', port: 8080, path: '/' } as SandboxDestination
const demand = { agentToken: null, trafficToken: null, isPaused: true, mayWake: true }

/** Traffic for a paused sandbox of an absent node, which another node takes over first. */
function claimedElsewhere(afterwards: Forwarded) {
  const answers: Forwarded[] = ['absent', afterwards]
  const forwarder = { forward: async () => answers.shift()!, takeOver: async () => false }
  return new PeerTraffic({
    forwarder,
    findDemand: async () => demand,
    findSigned: undefined,
    log: silentLog,
  })
}

test('traffic goes to the node that took the sandbox over a moment earlier', async () => {
  assert.equal(await claimedElsewhere('answered').forward(exchange, destination), true)
  assert.equal(await claimedElsewhere('here').forward(exchange, destination), false)
})

test('traffic is told to come again if the sandbox has moved once more', async () => {
  const answer = await claimedElsewhere('absent').forward(exchange, destination)
  assert.equal(typeof answer === 'object' && answer.status, 503)
})
