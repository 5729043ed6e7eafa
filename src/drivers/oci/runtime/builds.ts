/**
 * Which build of a runtime wrote a checkpoint. Memory can be read back only by the very same one, and gVisor does
 * not say so by itself: builds made by Go all carry the same version.
 */
import { createHash } from 'node:crypto'
import { statSync } from 'node:fs'
import { open, stat } from 'node:fs/promises'
import { AppError } from '../../../lib/app-error.ts'
import { ifPresent } from '../../../lib/if-present.ts'
import { JoinedWork } from '../../../lib/keyed-lock.ts'
import { runCommand } from '../../../lib/run-command.ts'

export type RuntimeBuild = { path: string; size: number; mtimeMs: number; sha256: string }

const pieceBytes = 256 * 1024
const known = new Map<string, RuntimeBuild>()
const hashing = new JoinedWork<RuntimeBuild>()
const searching = new Map<string, Promise<boolean>>()
/** The function of gVisor that gives restored memory the host name of the new specification. */
const namingFunction = 'UTSNamespace).RestoreSpecValues'
/** Part of a message that only Warren's own build of gVisor has (src/app/setup/gvisor-changes.ts). */
const boundingMessage = 'network namespaces of their own, which gVisor cannot save'

export async function describeBuild(path: string): Promise<RuntimeBuild> {
  const { size, mtimeMs } = await stat(path)
  const before = known.get(path)
  if (before?.size === size && before.mtimeMs === mtimeMs) return before
  const build = await hashing.run(path, async () => ({ path, size, mtimeMs, sha256: await hashOf(path) }))
  known.set(path, build)
  return build
}

/** Gives the path of that build: where it was, or else the one in use now, should it be the same. */
export async function findBuild(build: RuntimeBuild, current: string): Promise<string> {
  for (const path of [build.path, current]) {
    const now = await ifPresent(stat(path))
    if (!now || now.size !== build.size) continue
    if (path === build.path && now.mtimeMs === build.mtimeMs) return path
    if ((await describeBuild(path)).sha256 === build.sha256) return path
  }
  throw new AppError(
    'unprocessable',
    `The memory was saved by another build of the runtime, which is no longer at ${build.path} ` +
      `(SHA-256 ${build.sha256.slice(0, 12)}…). Put it back, or start without memory: the files are whole.`,
  )
}

/**
 * Whether this build gives a restored sandbox its new host name by itself. No command of gVisor tells, but a program
 * made by Go carries the names of its functions. False where it cannot be found out: the name is then set once more.
 */
export const restoresHostname = (path: string): Promise<boolean> => carries(path, namingFunction)

/**
 * Whether this build of gVisor bounds a root that has all capabilities: its processes are limited, it does not trace the
 * agent, and no snapshot is taken of what gVisor cannot save.
 */
export const boundsRoot = (path: string): Promise<boolean> => carries(path, boundingMessage)

async function carries(path: string, text: string): Promise<boolean> {
  const { size, mtimeMs } = statSync(path)
  const key = `${text} ${path} ${size} ${mtimeMs}`
  const known = searching.get(key)
  if (known) return known
  const asked = runCommand('grep', ['--quiet', '--text', '--fixed-strings', text, path]).then(
    () => true,
    () => false,
  )
  searching.set(key, asked)
  return asked
}

/** Piece by piece in the same memory: the file is large, and this process would hold on to what reading it takes. */
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
