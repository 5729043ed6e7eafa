/**
 * Builds gVisor's runsc with Go from the pinned sources, as its official releases are built: with system call filters
 * that are compiled beforehand. `go install` leaves these out, and each sandbox would compile its own at its start.
 */
import { createHash } from 'node:crypto'
import { readFileSync } from 'node:fs'
import { cp, mkdir, mkdtemp, rm } from 'node:fs/promises'
import { join } from 'node:path'
import { AppError, errorText } from '../../lib/app-error.ts'
import { runCommand } from '../../lib/run-command.ts'
import { sourcesFolder } from '../project/project-folder.ts'
import { applyPatch } from './apply-patch.ts'
import { type Go, goVersion } from './go-toolchain.ts'
import { type Advance, eachLine } from './progress.ts'

export const gvisorVersion = 'v0.0.0-20260905035102-160fafc42237'
/** The patch that Warren applies to gVisor's sources. */
export const gvisorPatch = readFileSync(join(sourcesFolder, 'app/setup/gvisor.patch'), 'utf8')
const patchHash = createHash('sha256').update(gvisorPatch).digest('hex').slice(0, 8)
/** The name of what is built: all that decides what comes out. */
export const builtVersion = `${gvisorVersion}-${goVersion}-${patchHash}`
/** SHA-256 of the program that comes out, where it is known. */
export const builtSums: Readonly<Record<string, string>> = {
  x64: 'ac366143f081adf0ec66254fc1599d45f89cd1e952133421114a62402669c3ae',
}
/** Packages that Go compiles for it, the standard library included; only the bar depends on it. */
const goPackages = 620

type BuildPlan = {
  go: Go
  /** Where the program comes to lie. */
  path: string
  advance: Advance
  /** Without it the program is as gVisor's sources make it. */
  patch?: string
}

export async function buildRunsc({ go, path, advance, patch }: BuildPlan): Promise<void> {
  const folder = await mkdtemp(`${path}-sources-`)
  let compiled = 0
  const onOutput = eachLine((line) => {
    if (!line.includes(' ')) compiled += 1
    advance(Math.min(0.99, compiled / goPackages), line.slice(0, 60))
  })
  const build = (...args: string[]) =>
    runGo(go, ['build', '-v', '-trimpath', ...args], { cwd: folder, onOutput })
  try {
    await cp(await fetchSources(go, folder), folder, { recursive: true })
    await runCommand('chmod', ['--recursive', 'u+w', folder])
    if (patch !== undefined) {
      await applyPatch(patch, folder)
      const program = join(folder, 'write-filters/program')
      await build('-o', program, './write-filters')
      // The program must be the first process of a PID namespace; the patch explains why.
      await runCommand('unshare', ['--pid', '--fork', '--kill-child', program], { cwd: folder })
    }
    await build('-ldflags', '-s -w', '-o', path, './runsc')
  } catch (error) {
    const said = errorText(error).trim().split('\n').slice(-2).join(' ')
    throw new AppError('unavailable', `Go could not build gVisor: ${said}`, { cause: error })
  } finally {
    await rm(folder, { recursive: true, force: true })
  }
}

export const fetchSources = (go: Go, folder: string): Promise<string> =>
  fetchModule(go, folder, `gvisor.dev/gvisor@${gvisorVersion}`)

/** The folder that Go keeps the sources in. Go's checksum database vouches for them. */
export async function fetchModule(go: Go, folder: string, module: string): Promise<string> {
  await mkdir(folder, { recursive: true })
  const download = ['mod', 'download', '-json', module]
  const { stdout } = await runGo(go, download, { cwd: folder })
  return (JSON.parse(stdout) as { Dir: string }).Dir
}

/** Static, since runsc runs itself again in an empty chroot. Nothing of the machine or of Warren's own commit goes into it. */
function runGo({ program, environment }: Go, args: string[], options: Parameters<typeof runCommand>[2]) {
  const variables = {
    CGO_ENABLED: '0',
    GOFLAGS: '-mod=mod -buildvcs=false',
    GOWORK: 'off',
    GOAMD64: 'v1',
    GOARM64: 'v8.0',
    GOEXPERIMENT: '',
    ...environment,
  }
  const named = Object.entries(variables).map(([name, value]) => `${name}=${value}`)
  // Go ends with this process, also if that is killed. What it has compiled stays in its cache.
  return runCommand('setpriv', ['--pdeathsig', 'KILL', 'env', ...named, program, ...args], options)
}
