import assert from 'node:assert/strict'
import { test } from 'node:test'
import { ManualClock } from '../../../lib/clock.ts'
import { type GuardAct, GuardActs, whyTouched } from './guard-acts.ts'
import { noTeam } from './team-share.ts'

const frozen: GuardAct = { guard: 'disk', act: 'frozen', teamID: 'a', sandboxID: 'i1', why: 'first' }

test('repeated acts on one sandbox are one entry, which drives out no other', () => {
  const clock = new ManualClock()
  const acts = new GuardActs(clock)
  acts.note({ ...frozen, sandboxID: 'i0' })
  const firstAt = clock.now()
  for (let time = 1; time <= 1000; time++) {
    acts.note({ ...frozen, why: `time ${time}` })
    acts.note({ ...frozen, act: 'continued', why: 'space again' })
    clock.advance(1000)
  }
  const noted = acts.list()
  assert.deepEqual(
    noted.map(({ act, sandboxID, count }) => [act, sandboxID, count]),
    [
      ['continued', 'i1', 1000],
      ['frozen', 'i1', 1000],
      ['frozen', 'i0', 1],
    ],
  )
  const [, again] = noted
  assert.deepEqual([again!.why, again!.firstAt, again!.lastAt], ['time 1000', firstAt, firstAt + 999_000])
})

test('refusals are counted by team, the oldest of many acts go, and the warm pool is nobody', () => {
  const acts = new GuardActs(new ManualClock())
  for (let time = 0; time < 5; time++)
    acts.note({ guard: 'starts', act: 'refused', teamID: 'a', why: 'The memory of this server is used up.' })
  acts.note({ ...frozen, teamID: noTeam })
  assert.deepEqual(
    acts.list().map(({ act, count }) => [act, count]),
    [['refused', 5]],
  )
  for (let number = 0; number < 500; number++) acts.note({ ...frozen, sandboxID: `i${number}` })
  const noted = acts.list()
  assert.deepEqual([noted.length, noted[0]!.sandboxID, noted.at(-1)!.sandboxID], [200, 'i499', 'i300'])
})

test('a sandbox ends once, however often the guard asks for it', () => {
  const acts = new GuardActs(new ManualClock())
  for (let look = 0; look < 10; look++) acts.note({ ...frozen, act: 'ended' })
  assert.equal(acts.list()[0]!.count, 1)
})

test('the reason tells what was left, and how the team stood to its share', () => {
  const share = { teamID: 'a', usedBytes: 300 * 2 ** 20, fairBytes: 200.5 * 2 ** 20, aboveBytes: 1 }
  assert.equal(
    whyTouched('90 MiB of memory were left', [share], 'a'),
    '90 MiB of memory were left. The team used 300 MiB; its fair share was 200 MiB.',
  )
  assert.equal(whyTouched('90 MiB of memory were left', [share], 'b'), '90 MiB of memory were left.')
})
