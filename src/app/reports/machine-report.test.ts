import assert from 'node:assert/strict'
import { test } from 'node:test'
import { AppError } from '../../lib/app-error.ts'
import { ManualClock } from '../../lib/clock.ts'
import { silentLog } from '../../lib/log.ts'
import { RecentCreates } from '../telemetry/recent-creates.ts'
import { RecentProblems } from './recent-problems.ts'

const throughTracer = { trace: <T>(_: string, __: object, work: () => Promise<T>) => work() }

test('the last problems are listed, the newest first, and a repeated one is counted', () => {
  const clock = new ManualClock()
  const printed: string[] = []
  const problems = new RecentProblems({ ...silentLog, warn: (_, message) => printed.push(message) }, clock)
  problems.info({}, 'all is well')
  problems.error({ err: new AppError('no_space', 'The disk is full: free some space') }, 'create failed')
  for (let round = 0; round < 3; round++) problems.warn({}, `x${'y'.repeat(5000)}`)
  const [warned, failed] = problems.list()
  assert.deepEqual(
    [problems.list().length, warned!.count, warned!.message.length, printed.length],
    [2, 3, 1000, 3],
  )
  assert.match(failed!.cause!, /free some space/)
  for (let round = 0; round < 200; round++) problems.warn({}, `number ${round}`)
  assert.deepEqual([problems.list().length, problems.list()[0]!.message], [50, 'number 199'])
})

test('creates are counted by outcome, with their rate and quantiles', async () => {
  const clock = new ManualClock()
  const creates = new RecentCreates(throughTracer, clock)
  assert.deepEqual(creates.read(), { perSecond: 0, succeeded: 0, failed: 0, p50Ms: null, p99Ms: null })
  for (let ms = 1; ms <= 100; ms++) creates.record(ms, true)
  creates.record(9999, false)
  await assert.rejects(creates.trace('sandbox.create', {}, async () => assert.fail('no')))
  await creates.trace('sandbox.kill', {}, async () => {})
  // What a client must not have, or asks for in the wrong way, is no failure of the machine.
  for (const code of ['invalid_argument', 'not_found', 'limit_reached'] as const) {
    const reject = () => Promise.reject(new AppError(code, 'no'))
    await assert.rejects(creates.trace('sandbox.create', {}, reject), { code })
  }
  const { perSecond, ...rest } = creates.read()
  assert.deepEqual(rest, { succeeded: 100, failed: 2, p50Ms: 51, p99Ms: 100 })
  assert.equal(perSecond, 102 / 60)
  clock.advance(61_000)
  assert.equal(creates.read().perSecond, 0)
  for (let round = 0; round < 5000; round++) creates.record(1, true)
  assert.equal(creates.read().succeeded, 1000)
})
