/** A separate process for the survival tests. It starts sandboxes until it is killed, and stops each of them if asked to. */
import type { AgentProgram } from '../../../core/ports/agent-program.ts'
import type { SandboxSpec } from '../../../core/ports/driver.ts'
import { newSpec } from '../../driver-fixture.ts'
import type { OciDriverOptions } from '../context/driver-options.ts'
import { createOciDriver } from '../oci-driver.ts'

const { options, rootFolder, agent, changes, stops } = JSON.parse(process.argv[2]!) as {
  options: OciDriverOptions
  rootFolder: string
  agent: AgentProgram
  changes?: Partial<SandboxSpec>
  stops?: boolean
}
const driver = createOciDriver(options)
await driver.open()
process.stdout.write('open\n')
for (;;) {
  const handle = await driver.start(newSpec({ rootFolder, agent }, changes))
  if (stops) await driver.stop(handle)
  process.stdout.write(`${JSON.stringify(handle)}\n`)
}
