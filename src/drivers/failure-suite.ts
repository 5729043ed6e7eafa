/**
 * The promises of every driver about sandboxes that die by themselves and about unreadable state, as tests.
 */
import assert from 'node:assert/strict'
import { it } from 'node:test'
import { canLimitEgress, type Driver, type DriverHandle, type SandboxExit } from '../core/ports/driver.ts'
import { closedToAll, openRules } from '../core/ports/egress.ts'
import { isAppError } from '../lib/app-error.ts'
import type { DriverBench, DriverTools } from './driver-fixture.ts'

export type FailureBench = DriverBench & {
  /** Kills all processes of the sandbox from outside, like a `kill -9` of its first one. */
  killProcesses(handle: DriverHandle): Promise<void>
  /** Makes the state of this sandbox unreadable until the returned function has resolved. */
  makeUnreadable(sandboxID: string): Promise<() => Promise<void>>
  /** Makes the machine reject egress rules until the returned function has resolved. */
  breakEgress(): Promise<() => Promise<void>>
  /** True if the machine has a rule now that denies everything to the sandbox. */
  isClosed(handle: DriverHandle): Promise<boolean>
}

/** Declares the tests, on the bench of the suite for all drivers. */
export function failureTests({ bench, spec, find }: DriverTools<FailureBench>): void {
  it('reports the exit of a sandbox once, with its run and its reason; the sandbox is then gone, and still listed', async () => {
    const exits = collectExits(bench().driver)
    const [dies, survives] = await Promise.all([bench().driver.start(spec()), bench().driver.start(spec())])
    await bench().killProcesses(dies)
    const exit = await exits.next()
    assert.deepEqual([exit.sandboxID, exit.runID, exit.reason], [...idsOf(dies), 'killed'])
    assert.match(exit.detail, /^[A-Z].*\.$/)
    assert.equal(await bench().driver.recover(dies), 'gone')
    assert.ok(await find(bench().driver, exit.sandboxID))
    assert.equal(await bench().driver.recover(survives), 'running')
    await Promise.all([bench().driver.stop(dies), bench().driver.stop(survives)])
    assert.deepEqual(exits.close(), [])
  })

  it('reports the exit of a sandbox that another process started, after it is recovered', async () => {
    const handle = await bench().driver.start(spec())
    const other = bench().another()
    const exits = collectExits(other)
    assert.equal(await other.recover(handle), 'running')
    await bench().killProcesses(handle)
    assert.equal((await exits.next()).runID, handle.data.runID)
    await other.stop(handle)
    exits.close()
    await other.close()
  })

  it('treats a sandbox whose state cannot be read as neither running nor gone, and leaves it alone', async () => {
    const [known, unknown] = [spec(), spec()]
    const handles = [await bench().driver.start(known), await bench().driver.start(unknown)]
    const makeReadable = await bench().makeUnreadable(unknown.sandboxID)
    const found = await bench().driver.list()
    assert.ok(found.find(({ sandboxID }) => sandboxID === unknown.sandboxID)?.unreadable instanceof Error)
    assert.ok(await find(bench().driver, known.sandboxID))
    for (const verb of ['recover', 'stats', 'stop'] as const)
      await assert.rejects(bench().driver[verb](handles[1]!), (error) => !isAppError(error, 'not_found'))
    await makeReadable()
    assert.equal(await bench().driver.recover(handles[1]!), 'running')
    await Promise.all(handles.map((handle) => bench().driver.stop(handle)))
  })

  it('applies egress rules that failed before, or the old ones, when it gets them again', async () => {
    const { driver, breakEgress, isClosed } = bench()
    assert.ok(canLimitEgress(driver))
    const handle = await driver.start(spec())
    const rules = { ...openRules, deny: [closedToAll] }
    for (const wanted of [rules, openRules]) {
      const mend = await breakEgress()
      await assert.rejects(
        driver.limitEgress(handle, wanted),
        (error) => isAppError(error, 'unavailable') && /Try again/i.test(error.message),
      )
      await mend()
      await driver.limitEgress(handle, rules)
      assert.equal(await isClosed(handle), true)
    }
    await driver.stop(handle)
  })
}

const idsOf = ({ data }: DriverHandle) => [data.sandboxID, data.runID]

/** Collects the exits that a driver reports. */
export function collectExits(driver: Driver) {
  const exits: SandboxExit[] = []
  let wake = () => {}
  const unsubscribe = driver.onExit((exit) => {
    exits.push(exit)
    wake()
  })
  return {
    async next(): Promise<SandboxExit> {
      while (exits.length === 0) await new Promise<void>((resolve) => (wake = resolve))
      return exits.shift()!
    },
    /** Stops listening and returns the exits that no test has asked for. */
    close(): SandboxExit[] {
      unsubscribe()
      return exits
    },
  }
}
