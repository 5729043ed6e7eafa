/** A process of its own for the survival tests: starts sandboxes with the options it is given until it is killed. */
import { newSpec } from '../driver-suite.ts'
import { createOciDriver, type OciDriverOptions } from './oci-driver.ts'

const { options, rootFolder } = JSON.parse(process.argv[2]!) as {
  options: OciDriverOptions
  rootFolder: string
}
const driver = createOciDriver(options)
await driver.open()
process.stdout.write('open\n')
for (;;) {
  const handle = await driver.start(newSpec(rootFolder))
  process.stdout.write(`${JSON.stringify(handle)}\n`)
}
