/** Sandboxes as plain containers, started by runc. */
import { createOciDriver } from '../../drivers/oci/oci-driver.ts'
import { runCommand } from '../../lib/run-command.ts'
import { type Finding, fail, ok, warn } from '../setup/finding.ts'
import { findSystemProgram } from '../setup/programs.ts'
import { isRelease } from '../setup/shipped.ts'
import { installContainerRuntime } from '../setup/system-packages.ts'
import type { IsolationRuntime } from './isolation-runtime.ts'
import { lastWords, startSomething } from './start-something.ts'

const firstLine = (text: string): string => text.trim().split('\n')[0] ?? ''
const find = () => findSystemProgram('runc')

export const containerRuntime: IsolationRuntime = {
  async install(_folders, progress, hasStronger) {
    await installContainerRuntime(hasStronger, progress)
    return { program: find() ?? 'runc' }
  },
  find,
  createDriver: (runtimeBinary, parts) =>
    createOciDriver({ ...parts, isolation: 'container', runtimeBinary }),
  examine,
}

async function examine(): Promise<Finding> {
  const runc = find()
  if (!runc)
    return isRelease()
      ? ok('not installed, and not needed where gVisor works: `apt-get install runc` for containers')
      : warn('not installed: sandboxes cannot be containers', '`npm start` installs it with apt-get.')
  const version = firstLine((await runCommand(runc, ['--version'])).stdout)
  try {
    await startSomething(runc, [])
    return ok(`${version} starts containers; a pause keeps their memory until the machine goes down`)
  } catch (error) {
    return fail(
      `${version} does not start a container: ${lastWords(error)}`,
      'See the lines above; update runc.',
    )
  }
}
