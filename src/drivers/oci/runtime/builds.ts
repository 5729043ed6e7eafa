/**
 * Identifies the build of a runtime that wrote a checkpoint. Only the same build can restore the memory, and
 * gVisor does not report it: builds made by Go all have the same version.
 */
import { createHash } from 'node:crypto'
import { open, readdir, stat } from 'node:fs/promises'
import { basename, dirname, join } from 'node:path'
import { AppError } from '../../../lib/app-error.ts'
import { ifPresent } from '../../../lib/if-present.ts'
import { JoinedWork } from '../../../lib/keyed-lock.ts'
import { runCommand } from '../../../lib/run-command.ts'

export type RuntimeBuild = { path: string; size: number; mtimeMs: number; sha256: string }

const pieceBytes = 256 * 1024
const known = new Map<string, RuntimeBuild>()
const hashing = new JoinedWork<RuntimeBuild>()
const naming = new Map<string, Promise<boolean>>()
/** The function of gVisor that gives restored memory the host name of the new specification. */
const namingFunction = 'UTSNamespace).RestoreSpecValues'

export async function describeBuild(path: string): Promise<RuntimeBuild> {
  const { size, mtimeMs } = await stat(path)
  const before = known.get(path)
  if (before?.size === size && before.mtimeMs === mtimeMs) return before
  const build = await hashing.run(path, async () => ({ path, size, mtimeMs, sha256: await hashOf(path) }))
  known.set(path, build)
  return build
}

/**
 * Returns the path of that build: its old path, the current one if it is the same build, or one that an earlier
 * Warren left beside it.
 */
export async function findBuild(build: RuntimeBuild, current: string): Promise<string> {
  for (const path of [build.path, ...(await buildsAround(current))]) {
    const now = await ifPresent(stat(path))
    if (!now || now.size !== build.size) continue
    if (path === build.path && now.mtimeMs === build.mtimeMs) return path
    if ((await describeBuild(path)).sha256 === build.sha256) return path
  }
  throw new AppError(
    'unprocessable',
    `The snapshot was taken by another build of the runtime, which is no longer at ${build.path} ` +
      `(SHA-256 ${build.sha256.slice(0, 12)}…). Restore that build, or start without memory: the files are complete.`,
  )
}

/** The path of the build with this hash, if it is on this machine. */
export async function findBuildByHash(sha256: string, current: string): Promise<string | undefined> {
  for (const path of await buildsAround(current))
    if ((await describeBuild(path)).sha256 === sha256) return path
  return undefined
}

/** The current build first. Each build has a folder of its own, and those of earlier releases are kept. */
async function buildsAround(current: string): Promise<string[]> {
  const [program, parent] = [basename(current), dirname(dirname(current))]
  const names = (await ifPresent(readdir(parent))) ?? []
  const others: string[] = []
  for (const name of names.filter((one) => one.startsWith(`${program}-`))) {
    const path = join(parent, name, program)
    if (path !== current && (await ifPresent(stat(path)))) others.push(path)
  }
  return [current, ...others]
}

/**
 * True if this build itself gives a restored sandbox its new host name. No command of gVisor tells, but a Go
 * program contains the names of its functions. False if that cannot be found out: the name is then set once
 * more.
 */
export async function restoresHostname(path: string): Promise<boolean> {
  const { size, mtimeMs } = await stat(path)
  const key = `${path} ${size} ${mtimeMs}`
  const known = naming.get(key)
  if (known) return known
  const asked = runCommand('grep', ['--quiet', '--text', '--fixed-strings', namingFunction, path]).then(
    () => true,
    () => false,
  )
  naming.set(key, asked)
  return asked
}

/** Reads in pieces into the same memory: the file is large, and this process would keep the memory for it. */
async function hashOf(path: string): Promise<string> {
  const hash = createHash('sha256')
  const piece = Buffer.allocUnsafe(pieceBytes)
  await using file = await open(path)
  for (;;) {
    const { bytesRead } = await file.read(piece)
    if (bytesRead === 0) return hash.digest('hex')
    hash.update(piece.subarray(0, bytesRead))
  }
}
