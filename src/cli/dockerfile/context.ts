/**
 * The folder of a Dockerfile: selects the files of a COPY, computes their hash, and makes the archive for the
 * upload.
 */
import { spawn } from 'node:child_process'
import { createHash } from 'node:crypto'
import { createReadStream, type Stats } from 'node:fs'
import { lstat, open, readdir, readFile, readlink, unlink } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import type { Readable } from 'node:stream'
import { AppError, errorText } from '../../lib/app-error.ts'
import { randomHex } from '../../lib/ids.ts'
import { type Ignore, ignoreOf, isPattern, patternOf } from './patterns.ts'

/** The path is relative to the folder. */
type ContextEntry = { path: string; stats: Stats }

type Archive = { body: Readable; size: number }

export class BuildContext {
  readonly #folder: string
  readonly #ignore: Ignore

  private constructor(folder: string, ignore: Ignore) {
    this.#folder = folder
    this.#ignore = ignore
  }

  static async open(folder: string): Promise<BuildContext> {
    const rules = await readFile(join(folder, '.dockerignore'), 'utf8').catch((error) => {
      if (error.code === 'ENOENT') return ''
      throw new AppError('invalid_argument', `.dockerignore cannot be read: ${errorText(error)}`)
    })
    return new BuildContext(folder, ignoreOf(rules))
  }

  /**
   * Returns the entries of a source, sorted; folders include everything in them. Links are copied as links
   * and never followed.
   */
  async select(source: string): Promise<ContextEntry[]> {
    const names = source === '.' ? [] : source.split('/')
    // A file may be named like a pattern.
    const isPlain = !isPattern(source) || (await this.#stats(source)) !== undefined
    const plain = isPlain ? names : names.slice(0, names.findIndex(isPattern))
    await this.#refuseLinks(plain, isPlain)
    const found: ContextEntry[] = []
    await this.#walk(plain.join('/'), found)
    const pattern = isPlain ? /^/ : patternOf(source)
    const entries = found.filter(({ path }) => pattern.test(path))
    if (entries.length === 0) {
      const isThere = isPlain && (await this.#stats(source)) !== undefined
      throw refusal(
        isThere
          ? `'${source}' exists, but .dockerignore excludes it.`
          : `there is no '${source}' in ${this.#folder}.`,
      )
    }
    return entries.sort((a, b) => (a.path < b.path ? -1 : 1))
  }

  /** Changes if the files, their names or their modes change, not with their times or owners. */
  async hash(source: string, target: string, entries: readonly ContextEntry[]): Promise<string> {
    const hash = createHash('sha256').update(`COPY ${source} ${target}`)
    for (const { path, stats } of entries) {
      const full = join(this.#folder, path)
      hash.update(`\0${path}\0${stats.mode.toString(8)}\0`)
      if (stats.isSymbolicLink()) hash.update(await readlink(full))
      if (!stats.isFile()) continue
      hash.update(`${stats.size}\0`)
      for await (const chunk of createReadStream(full)) hash.update(chunk)
    }
    return hash.digest('hex')
  }

  /** Uses a file without a name, so that nothing of it is left behind however this ends. */
  async pack(entries: readonly ContextEntry[]): Promise<Archive> {
    const path = join(tmpdir(), `warren-context-${randomHex(8)}`)
    const file = await open(path, 'wx+', 0o600)
    try {
      await unlink(path)
      const exact = ['--no-recursion', '--hard-dereference', '--owner=0', '--group=0', '--numeric-owner']
      const list = ['--null', '--verbatim-files-from', '--files-from=-']
      await tar(['--create', '--gzip', `--directory=${this.#folder}`, ...exact, ...list], file.fd, entries)
      return { body: file.createReadStream({ start: 0 }), size: (await file.stat()).size }
    } catch (error) {
      await file.close()
      throw error
    }
  }

  async #walk(path: string, found: ContextEntry[]): Promise<void> {
    const stats = await this.#stats(path)
    if (!stats) return
    const isIgnored = path !== '' && this.#ignore(path)
    if (path !== '' && !isIgnored) {
      if (!stats.isFile() && !stats.isDirectory() && !stats.isSymbolicLink()) {
        throw refusal(`'${path}' is not a file, folder or link: exclude it with .dockerignore.`)
      }
      found.push({ path, stats })
    }
    if (!stats.isDirectory() || (isIgnored && !this.#ignore.hasExceptions)) return
    for (const name of await readdir(join(this.#folder, path))) {
      await this.#walk(path === '' ? name : `${path}/${name}`, found)
    }
  }

  /** A link on the way could lead out of the folder. */
  async #refuseLinks(names: readonly string[], isPlain: boolean): Promise<void> {
    const folders = isPlain ? names.length - 1 : names.length
    for (let count = 1; count <= folders; count += 1) {
      const path = names.slice(0, count).join('/')
      if ((await this.#stats(path))?.isSymbolicLink()) {
        throw refusal(`'${path}' is a link: name the folder that it leads to, within ${this.#folder}.`)
      }
    }
  }

  #stats(path: string): Promise<Stats | undefined> {
    return lstat(join(this.#folder, path)).catch((error) => {
      if (['ENOENT', 'ENOTDIR', 'ENAMETOOLONG'].includes(error.code)) return undefined
      throw error
    })
  }
}

const refusal = (message: string) => new AppError('invalid_argument', message)

function tar(args: readonly string[], output: number, entries: readonly ContextEntry[]): Promise<void> {
  return new Promise((resolve, reject) => {
    const child = spawn('tar', args, { stdio: ['pipe', output, 'pipe'] })
    let said = ''
    child.stderr!.on('data', (chunk: Buffer) => {
      said += chunk
    })
    child.stdin!.on('error', () => {})
    child.stdin!.end(entries.map(({ path }) => `${path}\0`).join(''))
    const failed = (why: string) => new AppError('unavailable', `The files could not be packed: ${why}`)
    child.on('error', (error) => reject(failed(errorText(error))))
    child.on('close', (code) =>
      code === 0 ? resolve() : reject(failed(said.trim() || `tar ended with ${code}`)),
    )
  })
}
