/** Many creates at once: each starts in its turn or gets 503 with Retry-After, and nobody else is hurt. */
import assert from 'node:assert/strict'
import { availableParallelism } from 'node:os'
import { describe, it } from 'node:test'
import { Sandbox } from 'e2b'
import { startWarren } from '../support/warren.ts'

/** Sandboxes of the base template have two CPUs each. */
const mostSandboxes = (10 * availableParallelism()) / 2
const creates = mostSandboxes + 20

describe('more creates at once than the machine may take', () => {
  it('start up to what may be promised; the rest get 503 with Retry-After, and a running sandbox goes on', async () => {
    const settings = {
      WARREN_START_WAIT_SECONDS: '5',
      WARREN_CPU_OVERCOMMIT: '10',
      WARREN_WARM_SANDBOXES: '0',
    }
    const warren = await startWarren('container', { settings })
    try {
      const running = await Sandbox.create('base', warren.client)
      const create = () => warren.api('/v2/sandboxes', { body: { templateID: 'base', timeout: 300 } })
      const answers = await Promise.all(Array.from({ length: creates }, create))
      for (const answer of answers.filter(({ status }) => status !== 201)) {
        assert.equal(answer.status, 503, await answer.clone().text())
        assert.equal(answer.headers.get('Retry-After'), '5')
        assert.match(await answer.text(), /waited 5 s for its turn and was not started; try again in 5 s/)
      }
      const started = answers.filter(({ status }) => status === 201)
      assert.ok(started.length > 0 && started.length < mostSandboxes, `${started.length} started`)
      assert.equal((await running.commands.run('echo alive')).stdout, 'alive\n')
      const listed = await Sandbox.list({ ...warren.client, limit: 100 }).nextItems()
      assert.equal(listed.length, started.length + 1)
      await Promise.all(listed.map(({ sandboxId }) => Sandbox.kill(sandboxId, warren.client)))
      assert.equal((await create()).status, 201)
    } finally {
      await warren.stop()
    }
  })
})
