/** A separate process for the survival tests of snapshots. It repeats one verb on a sandbox until it is killed. */
import type { AgentProgram } from '../../../core/ports/agent-program.ts'
import { newUUID } from '../../../lib/ids.ts'
import { listed, newSpec } from '../../driver-fixture.ts'
import type { OciDriverOptions } from '../context/driver-options.ts'
import { createOciDriver } from '../oci-driver.ts'

export type SnapshotChildInput = {
  options: OciDriverOptions
  rootFolder: string
  agent: AgentProgram
  sandboxID: string
  folder: string
  verb: 'pause' | 'snapshot'
}

const input = JSON.parse(process.argv[2]!) as SnapshotChildInput
const driver = createOciDriver(input.options)
const memory = driver.capabilities.snapshotMemory
await driver.open()
process.stdout.write('open\n')
for (;;) {
  const found = (await listed(driver)).find(({ sandboxID }) => sandboxID === input.sandboxID)!
  if (input.verb === 'snapshot') {
    await driver.takeSnapshot(found.handle, input.folder, { memory, afterwards: 'go-on', lasting: true })
  } else {
    await driver.takeSnapshot(found.handle, input.folder, { memory, afterwards: 'end', lasting: true })
    const fromSnapshot = { folder: input.folder, memory, keepSnapshot: false }
    await driver.start(newSpec(input, { sandboxID: input.sandboxID, runID: newUUID(), fromSnapshot }))
  }
  await driver.removeSnapshot(input.folder)
}
