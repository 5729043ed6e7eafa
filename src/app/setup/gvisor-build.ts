/**
 * Builds gVisor's runsc with Go from the pinned sources, as its official releases are built: with system call filters
 * that are compiled beforehand. `go install` leaves these out, and each sandbox would compile its own at its start. And
 * with a package of ours that makes a start cheaper (`gvisor-early.ts`), and with changes for a root that has all
 * capabilities (`gvisor-changes.ts`).
 */
import { cp, mkdir, mkdtemp, readFile, rm, writeFile } from 'node:fs/promises'
import { dirname, join } from 'node:path'
import { AppError, errorText } from '../../lib/app-error.ts'
import { runCommand } from '../../lib/run-command.ts'
import { rootChanges, type SourceChange } from './gvisor-changes.ts'
import { earlyPackage } from './gvisor-early.ts'
import { type Advance, eachLine } from './progress.ts'

const goVersion = 'v0.0.0-20260905035102-160fafc42237'
/** The name of what is built: that of the sources, and what sets it apart from other builds of them. */
export const builtVersion = `${goVersion}-filters-early-root`
/** Packages that Go compiles for it, the standard library included; only the bar depends on it. */
const goPackages = 620

/** Keeps those of nearly 600 combinations of options that Warren can choose, which saves a minute of compiling. */
const fewerOptions: SourceChange = {
  file: 'runsc/boot/filter/config/config_precompiled.go',
  from: '	programs := make([]precompiledseccomp.Program, len(opts))\n',
  to: `	kept := opts[:0]
	for _, opt := range opts {
		if !(opt.HostNetwork || opt.NVProxy || opt.TPUProxy || opt.RDMAProxy) {
			kept = append(kept, opt)
		}
	}
	opts = kept
	programs := make([]precompiledseccomp.Program, len(opts))
`,
}

const importEarly: SourceChange = {
  file: 'runsc/main.go',
  from: 'import (\n',
  to: 'import (\n	_ "gvisor.dev/gvisor/early"\n',
}

/** The two filters of a sandbox: that of its kernel and that of its gofer. */
const filters = {
  sentry: 'runsc/boot/filter',
  gofer: 'runsc/fsgofer/filter',
}
const registration = '	programs := make(map[string]precompiledseccomp.Program)\n'

/** Prints the Go statements that register the filters of the package named by its argument. */
const printFilters = `package main

import (
	"fmt"
	"os"

	sentry "gvisor.dev/gvisor/${filters.sentry}/config"
	gofer "gvisor.dev/gvisor/${filters.gofer}/config"
)

func main() {
	compile := sentry.PrecompiledPrograms
	if os.Args[1] == "gofer" {
		compile = gofer.PrecompiledPrograms
	}
	programs, err := compile()
	if err != nil {
		panic(err)
	}
	for _, program := range programs {
		fmt.Print(program.Registration("\\t", "precompiledseccomp", "programs"))
	}
}
`

/** Go's own caches are left as the user has them. */
export async function buildRunsc(go: string, path: string, advance: Advance): Promise<void> {
  const folder = await mkdtemp(`${path}-sources-`)
  let compiled = 0
  const onOutput = eachLine((line) => {
    if (!line.includes(' ')) compiled += 1
    advance(Math.min(0.99, compiled / goPackages), line.slice(0, 60))
  })
  try {
    await copySources(go, folder)
    await compileFilters(go, folder, onOutput)
    await addEarlyPackage(folder)
    for (const one of rootChanges) await change(folder, one)
    await runGo(go, ['build', '-v', '-trimpath', '-ldflags', '-s -w', '-o', path, './runsc'], {
      cwd: folder,
      onOutput,
    })
  } catch (error) {
    const said = errorText(error).trim().split('\n').slice(-2).join(' ')
    throw new AppError('unavailable', `Go could not build gVisor: ${said}`, { cause: error })
  } finally {
    await rm(folder, { recursive: true, force: true })
  }
}

/** Static, since runsc runs itself again in an empty chroot. */
function runGo(go: string, args: string[], options: Parameters<typeof runCommand>[2]) {
  return runCommand('env', ['CGO_ENABLED=0', 'GOFLAGS=-mod=mod', go, ...args], options)
}

/** Go's checksum database vouches for what it downloads, and nobody may write to where it keeps that. */
async function copySources(go: string, folder: string): Promise<void> {
  const download = ['mod', 'download', '-json', `gvisor.dev/gvisor@${goVersion}`]
  const { stdout } = await runGo(go, download, { cwd: folder })
  const { Dir: sources } = JSON.parse(stdout) as { Dir: string }
  await cp(sources, folder, { recursive: true })
  await runCommand('chmod', ['--recursive', 'u+w', folder])
}

async function compileFilters(go: string, folder: string, onOutput: (chunk: Buffer) => void): Promise<void> {
  await change(folder, fewerOptions)
  const printer = join(folder, 'print-filters', 'main.go')
  await mkdir(dirname(printer))
  await writeFile(printer, printFilters)
  const program = join(folder, 'print-filters', 'program')
  await runGo(go, ['build', '-v', '-trimpath', '-o', program, './print-filters'], { cwd: folder, onOutput })
  for (const [name, of] of Object.entries(filters)) {
    const { stdout } = await runCommand(program, [name])
    await change(folder, {
      file: join(of, 'filter_precompiled.go'),
      from: registration,
      to: `${registration}${stdout}`,
    })
  }
}

async function addEarlyPackage(folder: string): Promise<void> {
  const path = join(folder, earlyPackage.file)
  await mkdir(dirname(path))
  await writeFile(path, earlyPackage.text)
  await change(folder, importEarly)
}

async function change(folder: string, { file, from, to }: SourceChange): Promise<void> {
  const path = join(folder, file)
  const parts = (await readFile(path, 'utf8')).split(from)
  if (parts.length !== 2) throw new Error(`${file} of gVisor's sources is not as expected`)
  await writeFile(path, parts.join(to))
}
