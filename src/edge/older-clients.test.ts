/** Clients that are older than access tokens show the agent's token in the names of hosts. */
import assert from 'node:assert/strict'
import type http from 'node:http'
import { describe, it } from 'node:test'
import { agentToken, domain, type EdgeFixture, edgeFixture, fetchOnce } from './edge-fixture.ts'
import { sleepyEdge, textOfToken } from './sleepy-edge-fixture.ts'

const [envd, interpreter] = [49983, 49999]
const clientID = '0123456789abcdef0123456789abcdef'

const hostOf = (sandboxID: string, client: string | null, port = envd) =>
  `${port}-${sandboxID}${client === null ? '' : `-${client}`}.${domain}`

async function seenBy(edge: EdgeFixture, headers: http.OutgoingHttpHeaders): Promise<string> {
  return (await fetchOnce(edge.port, { path: '/health', headers })).body
}

describe('a client ID that stands for a token', () => {
  it('is turned into the token for the agent and the code interpreter, and for nobody else', async () => {
    await using edge = await edgeFixture()
    const service = await textOfToken(edge)
    const { sandboxID, map } = edge.sandbox({ hostToken: clientID })
    for (const port of [envd, interpreter, 80]) map(port, service.port)
    const cases: [headers: http.OutgoingHttpHeaders, seen: string][] = [
      [{ Host: hostOf(sandboxID, clientID) }, agentToken],
      [{ Host: hostOf(sandboxID, clientID.toUpperCase()) }, agentToken],
      [{ Host: hostOf(sandboxID, clientID, interpreter) }, agentToken],
      [{ Host: hostOf(sandboxID, null) }, 'none'],
      [{ Host: hostOf(sandboxID, null, interpreter) }, 'none'],
      [{ Host: hostOf(sandboxID, '6532622b') }, 'none'],
      [{ Host: hostOf(sandboxID, `${clientID}0`) }, 'none'],
      [{ Host: hostOf(sandboxID, clientID, 80) }, 'none'],
      // The request shows a token of its own: the agent judges it.
      [{ Host: hostOf(sandboxID, clientID), 'X-Access-Token': 'wrong' }, 'wrong'],
      [{ Host: hostOf(sandboxID, clientID), 'X-Access-Token': '' }, ''],
      // On a shared host nothing of this holds.
      [
        { Host: 'localhost', 'E2b-Sandbox-Id': `${sandboxID}-${clientID}`, 'E2b-Sandbox-Port': `${envd}` },
        'none',
      ],
    ]
    for (const [headers, seen] of cases) {
      assert.equal(await seenBy(edge, headers), seen, JSON.stringify(headers))
    }
  })

  it('opens no sandbox that was made by another client', async () => {
    await using edge = await edgeFixture()
    const service = await textOfToken(edge)
    const { sandboxID, map } = edge.sandbox()
    map(envd, service.port)
    for (const client of [clientID, 'undefined', 'null', '6532622b']) {
      assert.equal(await seenBy(edge, { Host: hostOf(sandboxID, client) }), 'none', client)
    }
  })

  it('opens no internal route', async () => {
    await using edge = await edgeFixture()
    const { sandboxID, map } = edge.sandbox({ hostToken: clientID })
    map(envd, (await textOfToken(edge)).port)
    const headers = { Host: hostOf(sandboxID, clientID) }
    assert.equal((await fetchOnce(edge.port, { method: 'POST', path: '/init', headers })).status, 404)
  })

  it('wakes a sandbox, and without it nothing does', async () => {
    await using edge = await sleepyEdge()
    const sleeper = edge.sleeper({ hostToken: clientID })
    sleeper.map(envd, (await textOfToken(edge)).port)
    sleeper.rise.resolve()
    for (const client of [null, '6532622b']) {
      const headers = { Host: hostOf(sleeper.sandboxID, client) }
      assert.equal((await fetchOnce(edge.port, { path: '/health', headers })).status, 403)
    }
    assert.equal(sleeper.wakes, 0)
    assert.equal(await seenBy(edge, { Host: hostOf(sleeper.sandboxID, clientID) }), agentToken)
    assert.equal(sleeper.wakes, 1)
  })
})
