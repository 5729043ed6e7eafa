/** Many creates at once: each starts in its turn or gets 503 with Retry-After, and nobody else is hurt. */
import assert from 'node:assert/strict'
import { availableParallelism } from 'node:os'
import { describe, it } from 'node:test'
import { Sandbox } from 'e2b'
import { delay } from '../../src/lib/clock.ts'
import { median, percentile, timed } from '../bench/measure.ts'
import { countOf } from '../support/count-of.ts'
import { eventually } from '../support/eventually.ts'
import { countTraces, settledTraces } from '../support/traces.ts'
import { isolations, startWarren, type Warren } from '../support/warren.ts'

const creates = countOf({ short: 60, long: 300 })
const cpuOvercommit = countOf({ short: 10, long: 200 })
const waitSeconds = countOf({ short: 3, long: 45 })
/** Sandboxes of the base template have two CPUs each. */
const maxBusySandboxes = (cpuOvercommit * availableParallelism()) / 2
/** Those who watch must not be what slows the server. */
const betweenProbesMs = 20
const settings = {
  WARREN_CPU_OVERCOMMIT: String(cpuOvercommit),
  WARREN_START_WAIT_SECONDS: String(waitSeconds),
  // What the warm pool makes anew afterwards could not be told from what a burst left behind.
  WARREN_WARM_SANDBOXES: '0',
}

for (const isolation of isolations) {
  describe(`a burst of ${creates} creates, ${isolation}`, () => {
    it('starts as many as the machine can carry; the rest get 503, running ones continue, and nothing is left behind', async (t) => {
      const warren = await startWarren(isolation, { settings })
      try {
        await allow(warren, creates + 1)
        await Sandbox.kill((await Sandbox.create('base', warren.client)).sandboxId, warren.client)
        const clean = await settledTraces(warren.dataFolder)
        const running = await Sandbox.create('base', warren.client)
        const watch = watchOthers(warren, running)
        const [burstMs, answers] = await timed(() =>
          Promise.all(Array.from({ length: creates }, () => create(warren))),
        )
        for (const line of await watch.end()) t.diagnostic(line)
        const started = answers.filter(({ status }) => status === 201)
        t.diagnostic(`${started.length} of ${creates} started, in ${(burstMs / 1000).toFixed(1)} s`)
        for (const answer of answers.filter(({ status }) => status !== 201)) await isRejectedInWords(answer)
        assert.ok(started.length > 0 && started.length < maxBusySandboxes, `${started.length} started`)
        const made = await Promise.all(started.map((one) => one.json() as Promise<{ sandboxID: string }>))
        const ids = [running.sandboxId, ...made.map(({ sandboxID }) => sandboxID)]
        assert.deepEqual((await listed(warren)).sort(), ids.toSorted())
        const [killMs] = await timed(() => Promise.all(ids.map((id) => Sandbox.kill(id, warren.client))))
        t.diagnostic(`all of them killed in ${(killMs / 1000).toFixed(1)} s`)
        await eventually(() => assert.deepEqual(countTraces(warren.dataFolder), clean))
        // A client that tries again later gets its sandbox.
        await Sandbox.kill((await Sandbox.create('base', warren.client)).sandboxId, warren.client)
      } finally {
        await warren.stop()
      }
    })
  })
}

const create = (warren: Warren) => warren.api('/v2/sandboxes', { body: { templateID: 'base', timeout: 600 } })

async function allow(warren: Warren, maxSandboxes: number): Promise<void> {
  const answer = await warren.api(`/admin/teams/${warren.team}/limits`, {
    method: 'PATCH',
    key: null,
    headers: { 'X-Admin-Token': warren.adminToken },
    body: { maxSandboxes, maxCPU: 2 * maxSandboxes, maxMemoryMB: 1024 * maxSandboxes },
  })
  assert.equal(answer.status, 200)
}

async function isRejectedInWords(answer: Response): Promise<void> {
  const text = await answer.text()
  assert.equal(answer.status, 503, text)
  assert.equal(answer.headers.get('Retry-After'), '5')
  assert.match(text, new RegExp(`waited ${waitSeconds} s for its turn and was not started; try again in 5 s`))
}

async function listed(warren: Warren): Promise<string[]> {
  const ids: string[] = []
  const pages = Sandbox.list({ ...warren.client, limit: 100 })
  while (pages.hasNext) ids.push(...(await pages.nextItems()).map(({ sandboxId }) => sandboxId))
  return ids
}

/** Uses the API and a sandbox that runs, one after the other, until it is ended; the lines say how long they took. */
function watchOthers(warren: Warren, running: Sandbox): { end(): Promise<string[]> } {
  const probes: Record<string, () => Promise<void>> = {
    'GET /health': async () => assert.equal((await warren.api('/health')).status, 200),
    'list of sandboxes': async () => assert.equal((await warren.api('/v2/sandboxes')).status, 200),
    'command in a running sandbox': async () =>
      assert.equal((await running.commands.run('echo alive')).stdout, 'alive\n'),
  }
  let isOver = false
  const watches = Object.entries(probes).map(async ([name, probe]) => {
    const samples: number[] = []
    while (!isOver) {
      samples.push((await timed(probe))[0])
      await delay(betweenProbesMs)
    }
    const [p50, p99, max] = [median(samples), percentile(samples, 99), Math.max(...samples)]
    return `${name}: ${samples.length} times, p50 ${p50.toFixed(0)} ms, p99 ${p99.toFixed(0)} ms, most ${max.toFixed(0)} ms`
  })
  // A failure is that of the test once the burst is over.
  for (const one of watches) one.catch(() => {})
  return {
    end: () => {
      isOver = true
      return Promise.all(watches)
    },
  }
}
