import assert from 'node:assert/strict'
import { it } from 'node:test'
import { ManualClock } from '../../../lib/clock.ts'
import { silentLog } from '../../../lib/log.ts'
import type { TemplateStore } from '../../template/template-store.ts'
import { CreateCounter } from './create-counter.ts'

async function pass(clock: ManualClock, ms: number): Promise<void> {
  for (let passed = 0; passed < ms; passed += 250) {
    clock.advance(250)
    for (let turn = 0; turn < 3; turn++) await new Promise((resolve) => setImmediate(resolve))
  }
}

it('counts that cannot be written are tried less and less often, and none is lost', async () => {
  const clock = new ManualClock()
  let [tries, isUnreachable] = [0, true]
  const written: unknown[] = []
  const recordCreates: TemplateStore['recordCreates'] = async (templateID, count) => {
    tries++
    if (isUnreachable) throw new Error('the database is away')
    written.push([templateID, count])
  }
  const templates = { recordCreates } as TemplateStore
  const counter = new CreateCounter({ templates, clock, log: silentLog })
  for (let create = 0; create < 3; create++) counter.count('a', clock.now())
  await pass(clock, 600_000)
  assert.ok(tries >= 6 && tries <= 16, `${tries} tries in ten minutes`)
  // Creates in the meantime do not shorten the delay.
  for (let create = 0; create < 100; create++) {
    counter.count('a', clock.now())
    await pass(clock, 500)
  }
  assert.ok(tries <= 18, `${tries} tries`)
  isUnreachable = false
  await pass(clock, 60_000)
  assert.deepEqual(written, [['a', 103]])
  await counter.close()
})
