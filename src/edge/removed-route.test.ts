import assert from 'node:assert/strict'
import type { ServerResponse } from 'node:http'
import { describe, it } from 'node:test'
import { edgeFixture, fetchOnce, to } from './edge-fixture.ts'

const envd = 49983

describe('requests without an answer when the route of their sandbox is removed', () => {
  const remove = async (how: 'remove' | 'depart') => {
    await using edge = await edgeFixture({ finishWithinMs: 100 })
    const sandbox = edge.sandbox()
    let waiting = 0
    const silent = await edge.service(() => {
      waiting++
    })
    for (const port of [80, envd]) sandbox.map(port, silent.port)
    const asked = [
      { headers: { ...to(sandbox, envd), 'Content-Type': 'application/connect+json' } },
      { headers: { ...to(sandbox, envd), 'Connect-Protocol-Version': '1' } },
      { headers: to(sandbox, 80) },
    ].map((options) => fetchOnce(edge.port, { method: 'POST', ...options }))
    while (waiting < asked.length) await new Promise(setImmediate)
    await sandbox[how]()
    return Promise.all(asked)
  }

  it('learn that a sandbox on its way to another node lives, and may have carried them out', async () => {
    const answers = await remove('depart')
    assert.deepEqual(
      answers.map(({ status }) => status),
      [200, 409, 503],
    )
    for (const { body } of answers) assert.match(body, /is on its way to another machine/)
    for (const { body } of answers.slice(0, 2)) assert.match(body, /"code":"aborted"/)
  })

  it('finish before their sandbox goes to another node, and new ones do not reach it meanwhile', async () => {
    await using edge = await edgeFixture({ finishWithinMs: 60_000 })
    const sandbox = edge.sandbox()
    const unanswered: ServerResponse[] = []
    const slow = await edge.service((_request, response) => void unanswered.push(response))
    sandbox.map(envd, slow.port)
    const asked = fetchOnce(edge.port, { headers: to(sandbox, envd) })
    while (unanswered.length < 1) await new Promise(setImmediate)
    let isGone = false
    const departure = sandbox.depart().then(() => {
      isGone = true
    })
    assert.equal((await fetchOnce(edge.port, { headers: to(sandbox, envd) })).status, 502)
    assert.equal(isGone, false)
    unanswered[0]!.end('done')
    assert.equal((await asked).body, 'done')
    await departure
  })

  it('learn that a sandbox has ended or was paused', async () => {
    for (const { status, body } of await remove('remove')) {
      assert.equal(status, 502)
      assert.match(body, /The sandbox was not found/)
    }
  })
})
