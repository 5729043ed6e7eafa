/**
 * What tests that make real sandboxes without a Warren need: the runtimes and a root of the base template,
 * made once by the code of a start and kept in the cache folder. A second call costs nothing.
 */
import { loadConfig } from '../../src/app/config/config.ts'
import { openDataFolder } from '../../src/app/data/data-folder.ts'
import { type PreparedMachine, prepareMachine } from '../../src/app/machine/prepare-machine.ts'
import { createProgress } from '../../src/app/setup/progress.ts'
import { machineFolder } from './warren.ts'

export async function testMachine(): Promise<PreparedMachine> {
  const paths = await openDataFolder(machineFolder)
  return prepareMachine(loadConfig({}), paths, createProgress(process.stderr))
}
