/** What every driver that can limit egress promises about changes of rules that fail, as tests. */
import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import type { CanLimitEgress, Driver, DriverHandle } from '../core/driver.ts'
import { type AddressRules, openRules } from '../core/egress.ts'
import { newSpec } from './driver-fixture.ts'

export type EgressBench = {
  driver: Driver & CanLimitEgress
  /** A folder that is prepared. */
  rootFolder: string
  /** The next change fails when its rules are written down, and the kernel still has the old ones. */
  failNextChange(): void
  /** What packets of the sandbox are held against, whatever is written down. */
  enforced(handle: DriverHandle): Promise<AddressRules>
  close(): Promise<void>
}

const closed: AddressRules = { allow: [], deny: ['0.0.0.0/0'], toGate: 'none' }

export function egressSuite(name: string, open: () => Promise<EgressBench>): void {
  describe(`${name} as a driver that limits egress`, () => {
    it('applies the rules of a change that failed when it is asked for them again', async () => {
      const { driver, rootFolder, failNextChange, enforced, close } = await open()
      const handle = await driver.start(newSpec(rootFolder))
      failNextChange()
      await assert.rejects(driver.limitEgress(handle, closed))
      assert.deepEqual(await enforced(handle), openRules)
      await driver.limitEgress(handle, closed)
      assert.deepEqual(await enforced(handle), closed)
      await driver.stop(handle)
      await close()
    })

    it('goes back to the rules from before a change that failed when it is asked for these', async () => {
      const { driver, rootFolder, failNextChange, enforced, close } = await open()
      const handle = await driver.start(newSpec(rootFolder, { egress: closed }))
      failNextChange()
      await assert.rejects(driver.limitEgress(handle, openRules))
      await driver.limitEgress(handle, closed)
      assert.deepEqual(await enforced(handle), closed)
      await driver.stop(handle)
      await close()
    })
  })
}
