/**
 * The name that a kit has by its contents, without reading them at each start: Node's binary has 120 MB, and hashing it
 * takes as much CPU time as all else that a start does.
 */
import { createHash } from 'node:crypto'
import { createReadStream } from 'node:fs'
import { mkdir, readFile, rename, rm, stat, writeFile } from 'node:fs/promises'
import { dirname } from 'node:path'
import { systemClock } from '../../lib/clock.ts'
import { randomHex } from '../../lib/ids.ts'
import { ifPresent } from '../../lib/if-present.ts'

type KitContents = {
  /** What is in the kit beside `files`. */
  texts: readonly string[]
  /** Paths by the names that the kit has for them. */
  files: ReadonlyMap<string, string>
}

/** A file that changed this short a time ago may change again without another date. */
const racyMs = 2000
const hashPattern = /^[0-9a-f]{32}$/

/** `noteFile` keeps the last name that was found, and for which state of the files. */
export async function kitNameOf(
  contents: KitContents,
  noteFile: string,
  clock = systemClock,
): Promise<string> {
  const state = await stateOf(contents)
  const [key, noted = ''] = (await ifPresent(readFile(noteFile, 'utf8')))?.split('\n') ?? []
  if (key === state.key && hashPattern.test(noted)) return noted
  const name = await hashOf(contents)
  const unchanged = (await stateOf(contents)).key === state.key
  if (unchanged && clock.now() - state.changedMs > racyMs) await note(noteFile, `${state.key}\n${name}\n`)
  return name
}

/**
 * Of every file each byte counts, and no date: two releases with the same agent have the same kit, and their
 * snapshots fit each other.
 */
async function hashOf({ texts, files }: KitContents): Promise<string> {
  const hash = createHash('sha256').update(texts.join('\n'))
  for (const [name, path] of sorted(files)) {
    hash.update(`\n${name}\n`)
    for await (const piece of createReadStream(path, { highWaterMark: 1024 * 1024 })) hash.update(piece)
  }
  return shortened(hash.digest('hex'))
}

/** A change of a file's bytes changes the date of its status (ctime), which nobody can set. */
async function stateOf({ texts, files }: KitContents): Promise<{ key: string; changedMs: number }> {
  const hash = createHash('sha256').update(texts.join('\n'))
  let changedMs = 0
  for (const [name, path] of sorted(files)) {
    const { dev, ino, size, ctimeNs, ctimeMs } = await stat(path, { bigint: true })
    hash.update(`\n${name}\n${path}\n${dev} ${ino} ${size} ${ctimeNs}`)
    changedMs = Math.max(changedMs, Number(ctimeMs))
  }
  return { key: shortened(hash.digest('hex')), changedMs }
}

const sorted = (files: ReadonlyMap<string, string>) => [...files].sort(([a], [b]) => (a < b ? -1 : 1))
const shortened = (digest: string) => digest.slice(0, 32)

async function note(file: string, text: string): Promise<void> {
  const beside = `${file}.${randomHex(4)}.new`
  await mkdir(dirname(file), { recursive: true })
  try {
    await writeFile(beside, text)
    await rename(beside, file)
  } finally {
    await rm(beside, { force: true })
  }
}
