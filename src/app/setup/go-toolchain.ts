/**
 * The Go that builds gVisor: one version on every machine, so that all of them make the same program of the same sources.
 * A Go of the machine may get that version by itself; else it is downloaded, and goes when the build is done.
 */
import { existsSync } from 'node:fs'
import { mkdir, rm } from 'node:fs/promises'
import { join } from 'node:path'
import { AppError } from '../../lib/app-error.ts'
import { runCommand } from '../../lib/run-command.ts'
import { downloadPinned, type PinnedFile } from './download.ts'
import { findSystemProgram } from './programs.ts'
import type { Advance } from './progress.ts'

export const goNumber = '1.26.8'
export const goVersion = `go${goNumber}`
/** A Go that has another version downloads this one. */
const answerMs = 300_000

/** A program, and what its environment says besides. */
export type Go = { program: string; environment: Record<string, string> }

/** Where the checksums come from: docs/decisions/0073-one-gvisor.md. */
const archives: Record<string, Omit<PinnedFile, 'name'>> = {
  x64: {
    url: `https://go.dev/dl/${goVersion}.linux-amd64.tar.gz`,
    bytes: 66_897_291,
    sha256: 'd0f743b33e8d8945e6b1f432edd15785c70507121d6e2a723b21285eddf8b57b',
  },
  arm64: {
    url: `https://go.dev/dl/${goVersion}.linux-arm64.tar.gz`,
    bytes: 63_811_405,
    sha256: '211ffced9dcb9633a55eac6364816ec0ddd951389a740e88fa8b3337971bdda0',
  },
}

/** Go before 1.21 knows nothing of other versions, and tells its own. */
export async function findGo(
  program = findSystemProgram('go') ?? '/usr/local/go/bin/go',
): Promise<Go | undefined> {
  if (!existsSync(program)) return undefined
  const asked = runCommand('env', [`GOTOOLCHAIN=${goVersion}`, program, 'version'], { timeoutMs: answerMs })
  const said = await asked.catch(() => undefined)
  if (!said?.stdout.startsWith(`go version ${goVersion} `)) return undefined
  return { program, environment: { GOTOOLCHAIN: goVersion } }
}

/** All that this Go downloads and compiles stays in the folder too. */
export async function downloadGo(
  folder: string,
  advance: Advance,
  archive = archives[process.arch],
): Promise<Go> {
  const there = await findDownloaded(folder)
  if (there) return there
  if (!archive) throw new AppError('unavailable', `There is no pinned Go for ${process.arch}.`)
  const file = join(folder, 'go.tar.gz')
  await mkdir(folder, { recursive: true })
  await downloadPinned({ ...archive, name: `Go ${goNumber}` }, file, advance)
  await runCommand('tar', ['-xzf', file, '-C', folder])
  await rm(file)
  return downloadedIn(folder)
}

/** One that a killed start has downloaded, with what it has compiled since. */
async function findDownloaded(folder: string): Promise<Go | undefined> {
  if (existsSync(join(folder, 'go/bin/go')) && !existsSync(join(folder, 'go.tar.gz')))
    return downloadedIn(folder)
  await rm(folder, { recursive: true, force: true })
  return undefined
}

function downloadedIn(folder: string): Go {
  const environment = {
    GOTOOLCHAIN: 'local',
    GOENV: 'off',
    GOPATH: join(folder, 'gopath'),
    GOCACHE: join(folder, 'gocache'),
  }
  return { program: join(folder, 'go/bin/go'), environment }
}
