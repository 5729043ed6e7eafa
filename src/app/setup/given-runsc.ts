/** The operator's runsc (WARREN_RUNSC), for a machine that must not compile: what it is, and whether Warren can use it. */
import { existsSync } from 'node:fs'
import { AppError, errorText } from '../../lib/app-error.ts'
import { sha256OfFile } from '../../lib/file-digest.ts'
import { runCommand } from '../../lib/run-command.ts'
import { builtSums, builtVersion } from './gvisor-build.ts'

/** Before it, gVisor's platform systrap used 3 % of a core in every idle sandbox. */
const oldestRelease = 20260601
const versionWithinMs = 20_000

/** `version` names its folder among the runtimes. `foreign`: what Warren's tests have not run; undefined for Warren's own build. */
export type GivenRunsc = { version: string; foreign?: string }

/** Rejects with what to do if this is no runsc, or one that is too old. */
export async function examineGiven(path: string): Promise<GivenRunsc> {
  const reject = (why: string, cause?: unknown) =>
    new AppError('invalid_argument', `WARREN_RUNSC is ${path}, ${why}`, { cause })
  if (!existsSync(path)) throw reject('which does not exist: give the path of a runsc.')
  const asked = runCommand(path, ['--version'], { timeoutMs: versionWithinMs })
  const { stdout } = await asked.catch((error) => {
    throw reject(`which does not run here: ${errorText(error)}`, error)
  })
  const version = /^runsc version (\S+)/.exec(stdout)?.[1]
  if (version === undefined) throw reject('which is no runsc: it does not tell the version of one.')
  const released = Number(/^release-(\d{8})/.exec(version)?.[1] ?? Number.POSITIVE_INFINITY)
  if (released < oldestRelease)
    throw reject(`which is ${version}: Warren needs release-${oldestRelease} or newer, or its own build.`)
  const sum = await sha256OfFile(path)
  if (sum === builtSums[process.arch]) return { version: builtVersion }
  return { version: `given-${sum.slice(0, 12)}`, foreign: version }
}
