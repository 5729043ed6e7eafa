/**
 * Gets gVisor's runsc: built with Go from pinned sources, which is what Warren's tests run, else the build that an
 * earlier Warren left, else not at all (Warren then uses plain containers).
 */
import { existsSync, readdirSync, renameSync, statSync } from 'node:fs'
import { chmod, copyFile, mkdir, rename, rm } from 'node:fs/promises'
import { basename, dirname, join } from 'node:path'
import { errorText } from '../../lib/app-error.ts'
import { pageBytes } from '../../lib/page-size.ts'
import { processStart } from '../../lib/process-start.ts'
import { runCommand } from '../../lib/run-command.ts'
import { examineGiven } from './given-runsc.ts'
import { downloadGo, findGo, goNumber } from './go-toolchain.ts'
import { buildRunsc, builtVersion, gvisorPatch, gvisorVersion } from './gvisor-build.ts'
import type { Progress } from './progress.ts'
import { findShipped, shippedFolder } from './shipped.ts'

/** A program that does not even tell its version within this time does not work. */
const versionWithinMs = 20_000
/** Of the folder of a downloaded Go, after the name of the unfinished program. */
const goSuffix = '-go'
const gvisorPageBytes = 4096

export const runscPath = (parent: string, version: string): string =>
  join(parent, `runsc-${version}`, 'runsc')

export function findRunsc(parent: string): string | undefined {
  const path = runscPath(parent, builtVersion)
  return existsSync(path) ? path : undefined
}

export const findShippedRunsc = () => findShipped(runscPath(shippedFolder, builtVersion))

export const mustBuildRunsc = (runtimesDir: string, cacheDir: string): boolean =>
  !findRunsc(runtimesDir) && !findShippedRunsc() && !findRunsc(cacheDir)

/** The newest build that an earlier Warren left there. */
export function findOlderRunsc(parent: string): string | undefined {
  if (!existsSync(parent)) return undefined
  const versions = readdirSync(parent).flatMap((name) => /^runsc-(.+)/.exec(name)?.slice(1) ?? [])
  const older = versions
    .filter((version) => version !== builtVersion)
    .map((version) => runscPath(parent, version))
    .filter((path) => existsSync(path))
  const made = new Map(older.map((path) => [path, statSync(path).mtimeMs]))
  return older.sort((one, other) => made.get(other)! - made.get(one)!)[0]
}

/** The operator's program, copied to where everybody may run it. Its snapshots stay with it. */
export async function installGiven(
  given: string,
  runtimesDir: string,
  progress: Progress,
): Promise<{ path: string }> {
  const { version, foreign } = await examineGiven(given)
  const path = runscPath(runtimesDir, version)
  if (!existsSync(path)) await makeWhole(path, (partial) => copyFile(given, partial))
  progress.note(`gVisor is ${given}, as WARREN_RUNSC says${foreign ? ': a foreign build' : ''}.`)
  return { path }
}

/** The path of runsc below `<dataDir>/runtimes`, or why there is none. */
export async function installRunsc(
  runtimesDir: string,
  cacheDir: string,
  progress: Progress,
  fill: typeof fillCache = fillCache,
  bytesOfPage = pageBytes(),
): Promise<{ path: string } | { missing: string }> {
  // It ends at once on others, after minutes of compiling.
  if (bytesOfPage !== gvisorPageBytes)
    return { missing: `gVisor needs memory pages of 4 kB, and the kernel here has ${bytesOfPage / 1024} kB.` }
  const there = findRunsc(runtimesDir)
  if (there) return { path: there }
  let missing = ''
  if (mustBuildRunsc(runtimesDir, cacheDir)) {
    progress.note('gVisor (runsc) is missing: it gives each sandbox a kernel of its own.')
    missing = await fill(cacheDir, progress)
  } else {
    progress.note(`gVisor comes from ${findShippedRunsc() ? 'this release' : `the cache (${cacheDir})`}.`)
  }
  const built = findShippedRunsc() ?? findRunsc(cacheDir)
  if (built) {
    const path = runscPath(runtimesDir, builtVersion)
    await makeWhole(path, (partial) => copyFile(built, partial))
    return { path }
  }
  const older = findOlderRunsc(runtimesDir)
  if (older === undefined) return { missing }
  progress.note(
    `Sandboxes go on with an older gVisor, ${basename(dirname(older))}: the one of this Warren cannot be had. ${missing} ` +
      'The next start with network gets it.',
  )
  return { path: older }
}

/** Gives the empty text on success, else the reason of the failure. */
async function fillCache(cacheDir: string, progress: Progress): Promise<string> {
  try {
    await makeWhole(runscPath(cacheDir, builtVersion), async (partial) => {
      const go = await progress.step(
        `Get Go ${goNumber}, which builds gVisor`,
        async (advance) => (await findGo()) ?? downloadGo(`${partial}${goSuffix}`, advance),
      )
      await progress.step(`Build gVisor ${gvisorVersion}`, (advance) =>
        buildRunsc({ go, path: partial, advance, patch: gvisorPatch }),
      )
    })
    return ''
  } catch (error) {
    progress.note(`  ${errorText(error)}`)
    return errorText(error)
  }
}

/** Makes a program complete in its place or not at all. */
async function makeWhole(path: string, make: (partial: string) => Promise<void>): Promise<void> {
  await mkdir(dirname(path), { recursive: true, mode: 0o755 })
  const partial = `${path}.${process.pid}.partial`
  await removeLeftovers(dirname(path), `${partial}${goSuffix}`)
  try {
    await make(partial)
    await chmod(partial, 0o755)
    await runCommand(partial, ['--version'], { timeoutMs: versionWithinMs })
    await rename(partial, path)
  } finally {
    await rm(partial, { force: true })
    // Go makes the folders of its modules read-only, which does not keep root from removing them.
    await rm(`${partial}${goSuffix}`, { recursive: true, force: true })
  }
}

/**
 * Removes unfinished files of starts that were killed, up to a gigabyte. The Go of one of them, with what it has compiled,
 * becomes that of this start.
 */
async function removeLeftovers(folder: string, goFolder: string): Promise<void> {
  for (const name of readdirSync(folder)) {
    const [, pid, part] = /^runsc\.(\d+)\.partial(.*)$/.exec(name) ?? []
    if (pid === undefined || Number(pid) === process.pid || processStart(Number(pid)) !== undefined) continue
    const path = join(folder, name)
    if (part === goSuffix && !existsSync(goFolder)) renameSync(path, goFolder)
    else await rm(path, { recursive: true, force: true })
  }
}
