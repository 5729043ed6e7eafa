import assert from 'node:assert/strict'
import { mock, suite, test } from 'node:test'
import { openIdleTimer } from './idle-timer.ts'

suite('work for an idle agent', () => {
  /** `frozenMs`: time that passes on the clock while timers do not run. */
  function open(t: { after(work: () => void): void }) {
    mock.timers.enable({ apis: ['setTimeout'] })
    t.after(() => mock.timers.reset())
    let [now, runs] = [0, 0]
    const use = openIdleTimer(
      1000,
      () => runs++,
      () => now,
    )
    const pass = (ms: number, frozenMs = 0) => {
      now += ms + frozenMs
      mock.timers.tick(ms)
    }
    return { use, pass, runs: () => runs }
  }

  test('is done once after the last use', (t) => {
    const { use, pass, runs } = open(t)
    use()
    pass(600)
    use()
    pass(600)
    assert.equal(runs(), 0)
    pass(400)
    assert.equal(runs(), 1)
    pass(10_000)
    assert.equal(runs(), 1)
    use()
    pass(1000)
    assert.equal(runs(), 2)
  })

  test('waits anew after the sandbox was frozen', (t) => {
    const { use, pass, runs } = open(t)
    use()
    pass(1000, 60_000)
    assert.equal(runs(), 0)
    pass(1000)
    assert.equal(runs(), 1)
  })
})
