/** What `warren doctor` finds out by starting something with each runtime. */
import assert from 'node:assert/strict'
import { readFileSync } from 'node:fs'
import test from 'node:test'
import { loadConfig } from '../../src/app/config/config.ts'
import { runtimeChecks } from '../../src/app/doctor/runtime-checks.ts'
import { eventually } from '../support/eventually.ts'
import { testMachine } from '../support/test-machine.ts'
import { isolations, machineFolder } from '../support/warren.ts'

const checkNames = { container: 'runc', gvisor: 'gVisor' } as const

const trialMounts = (): string[] =>
  readFileSync('/proc/self/mountinfo', 'utf8').match(/ \S+\/warren-(?:doctor|trial)-\S+/g) ?? []

for (const isolation of isolations) {
  test(`${isolation}: the doctor finds that a working runtime works, and leaves nothing mounted`, async () => {
    await testMachine()
    const before = trialMounts()
    const config = loadConfig({ WARREN_ISOLATION: isolation, WARREN_DATA_DIR: machineFolder })
    const finding = await runtimeChecks.find(({ name }) => name === checkNames[isolation])!.look(config)
    assert.equal(finding.status, 'ok', finding.text)
    // A trial of another test may be under way beside this one.
    await eventually(() =>
      assert.deepEqual(
        trialMounts().filter((mount) => !before.includes(mount)),
        [],
      ),
    )
  })
}
