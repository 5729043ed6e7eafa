/**
 * Gets gVisor's runsc: the official release at a pinned version and checksum, else built with Go at a pinned
 * version, else the build that an earlier Warren left, else not at all (Warren then uses plain containers).
 */
import { createHash } from 'node:crypto'
import { createWriteStream, existsSync, readdirSync, statSync } from 'node:fs'
import { chmod, copyFile, mkdir, rename, rm } from 'node:fs/promises'
import { basename, dirname, join } from 'node:path'
import { Readable } from 'node:stream'
import { pipeline } from 'node:stream/promises'
import { AppError, errorText } from '../../lib/app-error.ts'
import { runCommand } from '../../lib/run-command.ts'
import { buildRunsc, builtVersion } from './gvisor-build.ts'
import { findSystemProgram } from './programs.ts'
import type { Advance, Progress } from './progress.ts'

/** Where the two checksums come from: docs/decisions/0005-what-a-start-installs.md. */
const release = {
  version: '20260810.0',
  sha256: {
    x64: { folder: 'x86_64', sum: '670bcd3cbc103f00d8bb5098edc370f32397ee4c134231436bafa659bb3c068e' },
    arm64: { folder: 'aarch64', sum: 'ac5dbcbacc73f5999b24d322e7ef127db6bd5a41645de816afde228efbaaea70' },
  } as Record<string, { folder: string; sum: string }>,
}
const releaseUrl = (folder: string) =>
  `https://storage.googleapis.com/gvisor/releases/release/${release.version}/${folder}/runsc`

/** A server that sends nothing for this long counts as unreachable. */
const silenceMs = 20_000

/** The best version first. */
export const runscVersions = [release.version, builtVersion]
const placeOf = (parent: string, version: string): string => join(parent, `runsc-${version}`, 'runsc')

export function findRunsc(parent: string): string | undefined {
  return runscVersions.map((version) => placeOf(parent, version)).find((path) => existsSync(path))
}

/** The newest build that an earlier Warren left there. */
export function findOlderRunsc(parent: string): string | undefined {
  if (!existsSync(parent)) return undefined
  const versions = readdirSync(parent).flatMap((name) => /^runsc-(.+)/.exec(name)?.slice(1) ?? [])
  const older = versions
    .filter((version) => !runscVersions.includes(version))
    .map((version) => placeOf(parent, version))
    .filter((path) => existsSync(path))
  const made = new Map(older.map((path) => [path, statSync(path).mtimeMs]))
  return older.sort((one, other) => made.get(other)! - made.get(one)!)[0]
}

/** The path of runsc below `<dataDir>/runtimes`, or why there is none. */
export async function installRunsc(
  runtimesDir: string,
  cacheDir: string,
  progress: Progress,
  fill: typeof fillCache = fillCache,
): Promise<{ path: string } | { missing: string }> {
  const there = findRunsc(runtimesDir)
  if (there) return { path: there }
  let missing = ''
  if (!findRunsc(cacheDir)) {
    progress.note('gVisor (runsc) is missing: it gives each sandbox a kernel of its own.')
    missing = await fill(cacheDir, progress)
  }
  for (const version of runscVersions) {
    const cached = placeOf(cacheDir, version)
    if (!existsSync(cached)) continue
    const path = placeOf(runtimesDir, version)
    await place(path, (partial) => copyFile(cached, partial))
    return { path }
  }
  const older = findOlderRunsc(runtimesDir)
  if (older === undefined) return { missing }
  progress.note(
    `Sandboxes go on with an older gVisor, ${basename(dirname(older))}: the one of this Warren cannot be had. ${missing} ` +
      'The next start with network, or with Go on the PATH, gets it.',
  )
  return { path: older }
}

/** Gives the empty text on success, else the reasons of all failures. */
async function fillCache(cacheDir: string, progress: Progress): Promise<string> {
  const refusals: string[] = []
  const attempt = async (
    title: string,
    path: string,
    make: (partial: string, advance: Advance) => Promise<void>,
  ) => {
    try {
      await progress.step(title, (advance) => place(path, (partial) => make(partial, advance)))
      return true
    } catch (error) {
      refusals.push(errorText(error))
      progress.note(`  ${errorText(error)}`)
      return false
    }
  }
  const downloaded = placeOf(cacheDir, release.version)
  if (await attempt(`Download gVisor ${release.version}`, downloaded, download)) return ''
  const go = findGo()
  if (!go) {
    return [...refusals, 'Go, which could build it, is not on the PATH.'].join(' ')
  }
  const built = placeOf(cacheDir, builtVersion)
  if (
    await attempt(`Build gVisor ${builtVersion} with Go`, built, (partial, advance) =>
      buildRunsc(go, partial, advance),
    )
  ) {
    return ''
  }
  return refusals.join(' ')
}

/** Makes a program complete in its place or not at all. */
async function place(path: string, make: (partial: string) => Promise<void>): Promise<void> {
  await mkdir(dirname(path), { recursive: true, mode: 0o755 })
  const partial = `${path}.${process.pid}.partial`
  try {
    await make(partial)
    await chmod(partial, 0o755)
    await runCommand(partial, ['--version'], { timeoutMs: silenceMs })
    await rename(partial, path)
  } finally {
    await rm(partial, { force: true })
  }
}

async function download(partial: string, advance: Advance): Promise<void> {
  const wanted = release.sha256[process.arch]
  if (!wanted) throw new AppError('unavailable', `There is no gVisor for ${process.arch}.`)
  const silence = new AbortController()
  let timer = setTimeout(() => silence.abort(), silenceMs)
  const heard = () => {
    clearTimeout(timer)
    timer = setTimeout(() => silence.abort(), silenceMs)
  }
  const hash = createHash('sha256')
  try {
    const response = await fetch(releaseUrl(wanted.folder), { signal: silence.signal })
    if (!response.ok || !response.body) throw new Error(`the server answered ${response.status}`)
    const total = Number(response.headers.get('content-length')) || 105_000_000
    let read = 0
    const counted = async function* (chunks: AsyncIterable<Uint8Array>) {
      for await (const chunk of chunks) {
        heard()
        hash.update(chunk)
        read += chunk.length
        advance(read / total, `${Math.round(read / 1e6)} MB`)
        yield chunk
      }
    }
    await pipeline(Readable.fromWeb(response.body), counted, createWriteStream(partial))
  } catch (error) {
    const why = silence.signal.aborted ? 'the server is silent' : reasonOf(error)
    throw new AppError('unavailable', `The official gVisor release cannot be downloaded: ${why}.`, {
      cause: error,
    })
  } finally {
    clearTimeout(timer)
  }
  if (hash.digest('hex') !== wanted.sum) {
    throw new AppError('unavailable', 'The gVisor download has the wrong checksum and is not used.')
  }
}

/** The reason of a failed fetch is in its cause. */
function reasonOf(error: unknown): string {
  return error instanceof Error && error.cause !== undefined ? errorText(error.cause) : errorText(error)
}

function findGo(): string | undefined {
  return findSystemProgram('go') ?? (existsSync('/usr/local/go/bin/go') ? '/usr/local/go/bin/go' : undefined)
}
