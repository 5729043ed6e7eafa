import assert from 'node:assert/strict'
import { it } from 'node:test'
import { until } from '../../../test/support/domain.ts'
import { systemClock } from '../../lib/clock.ts'
import { silentLog } from '../../lib/log.ts'
import { repeat } from './repeat.ts'

it('a job that keeps failing is repeated, and each problem is logged once until the job succeeds', async () => {
  const logged: string[] = []
  const log = { ...silentLog, error: (_: object, message: string) => void logged.push(message) }
  const outcomes = ['away', 'away', 'away', 'full', 'full', undefined, 'away', 'away']
  let rounds = 0
  const work = async () => {
    const problem = outcomes[rounds++]
    if (problem !== undefined) throw new Error(problem)
  }
  const stop = repeat({ job: 'count', pauseMs: 1, work }, { clock: systemClock, log })
  await until(async () => rounds > outcomes.length)
  await stop()
  assert.deepEqual(logged, ['could not count: away', 'could not count: full', 'could not count: away'])
})
