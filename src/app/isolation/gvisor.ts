/** Sandboxes under gVisor, started by runsc. */
import { findPlatformChoice } from '../../drivers/oci/machine/platform.ts'
import { createOciDriver } from '../../drivers/oci/oci-driver.ts'
import { candidatePlatforms } from '../../drivers/oci/runtime/platforms.ts'
import { errorText } from '../../lib/app-error.ts'
import { runCommand } from '../../lib/run-command.ts'
import { type Finding, fail, ok, warn } from '../setup/finding.ts'
import { examineGiven, type GivenRunsc } from '../setup/given-runsc.ts'
import {
  findOlderRunsc,
  findRunsc,
  findShippedRunsc,
  installGiven,
  installRunsc,
  mustBuildRunsc,
} from '../setup/gvisor.ts'
import {
  type ExaminedSettings,
  type IsolationRuntime,
  type RuntimeFolders,
  runtimeFolders,
} from './isolation-runtime.ts'
import { lastWords, startSomething } from './start-something.ts'

const findOwn = ({ runtimes, cache }: RuntimeFolders) =>
  findRunsc(runtimes) ?? findShippedRunsc() ?? findRunsc(cache)
const find = (folders: RuntimeFolders) =>
  folders.runsc ?? findOwn(folders) ?? findOlderRunsc(folders.runtimes)

export const gvisorRuntime: IsolationRuntime = {
  async install({ runtimes, cache, runsc: given }, progress) {
    if (given !== null) return { program: (await installGiven(given, runtimes, progress)).path }
    const runsc = await installRunsc(runtimes, cache, progress)
    return 'path' in runsc ? { program: runsc.path } : runsc
  },
  mustBuild: ({ runtimes, cache, runsc }) => runsc === null && mustBuildRunsc(runtimes, cache),
  find,
  createDriver: (runtimeBinary, parts) => createOciDriver({ ...parts, isolation: 'gvisor', runtimeBinary }),
  examine,
  async gpuDrivers(runsc) {
    const { stdout } = await runCommand(runsc, ['nvproxy', 'list-supported-drivers'], { timeoutMs: 10_000 })
    return stdout.split('\n').filter((line) => /^\d/.test(line))
  },
}

async function examine(settings: ExaminedSettings, isRequired: boolean): Promise<Finding> {
  const folders = runtimeFolders(settings)
  let given: GivenRunsc | undefined
  try {
    given = settings.runsc === null ? undefined : await examineGiven(settings.runsc)
  } catch (error) {
    return fail(
      errorText(error),
      'Unset WARREN_RUNSC where Warren may build gVisor, or name one of its releases.',
    )
  }
  const runsc = find(folders)
  if (!runsc) {
    return warn(
      "not installed: sandboxes are plain containers, which isolate less: all of them share this machine's kernel",
      '`npm start` builds it. It needs network once: for Go, unless that is here, and for the sources of gVisor.',
    )
  }
  const { platforms, why } = await platformsToTry(settings, runsc)
  const refusals: string[] = []
  for (const platform of platforms) {
    try {
      await startSomething(runsc, ['--network=none', `--platform=${platform}`])
      const works = `${given ? 'WARREN_RUNSC' : runsc.split('/').at(-2)} works with the platform ${platform}, ${why}; a pause keeps memory, over a reboot too`
      if (given?.foreign !== undefined) {
        return warn(
          `WARREN_RUNSC is a foreign build, ${given.foreign}. It works with the platform ${platform}, but Warren's tests did not run it, and it lacks Warren's patch`,
          'Unset WARREN_RUNSC where Warren may build its own, or take the program from a release of Warren.',
        )
      }
      if (given !== undefined || findOwn(folders)) return ok(works)
      return warn(
        `${works}; it is the build of an earlier Warren`,
        'Start Warren with network to get its own.',
      )
    } catch (error) {
      refusals.push(`${platform}: ${lastWords(error)}`)
    }
  }
  return (isRequired ? fail : warn)(
    `does not work here: ${refusals.join('; ')}. Plain containers isolate less`,
    'WARREN_ISOLATION=container accepts plain containers.',
  )
}

/** The platform for new sandboxes, or those that the first start will measure. */
async function platformsToTry(
  { gvisorPlatform, dataDir }: ExaminedSettings,
  runsc: string,
): Promise<{ platforms: readonly string[]; why: string }> {
  if (gvisorPlatform !== 'auto') {
    return { platforms: [gvisorPlatform], why: 'as WARREN_GVISOR_PLATFORM says' }
  }
  const choice = await findPlatformChoice(dataDir, runsc)
  if (choice) return { platforms: [choice.platform], why: `the cheapest here (${choice.why})` }
  return { platforms: candidatePlatforms(), why: 'and the first start measures which one is best' }
}
