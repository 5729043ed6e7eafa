/**
 * What tests that make real sandboxes without a Warren need: the runtimes and a root of the base template,
 * made once by the code of a start and kept in the cache folder. A second call costs nothing.
 */
import { join, resolve } from 'node:path'
import { loadConfig } from '../../src/app/config.ts'
import { openDataFolder } from '../../src/app/data-folder.ts'
import { type PreparedMachine, prepareMachine } from '../../src/app/setup/prepare-machine.ts'
import { createProgress } from '../../src/app/setup/progress.ts'

const cacheFolder = resolve(import.meta.dirname, '../../.cache')

export async function testMachine(): Promise<PreparedMachine> {
  const paths = await openDataFolder(join(cacheFolder, 'machine'))
  return prepareMachine(loadConfig({}), paths, createProgress(process.stderr))
}
