/** `warren sandbox cp`: files and folders into a sandbox and out of it, with the rules of `docker cp`. */
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { createReadStream, mkdirSync, type Stats } from 'node:fs'
import { readdir, stat } from 'node:fs/promises'
import { basename, dirname, join, posix, resolve } from 'node:path'
import { PassThrough, type Readable, Writable } from 'node:stream'
import { AppError, errorText, isAppError } from '../lib/app-error.ts'
import { TarReader } from '../lib/tar/tar-reader.ts'
import { ArchiveWriter } from './archive-writer.ts'
import { positiveNumber, UsageError } from './arguments.ts'
import { plainLines } from './output.ts'
import { type RemoteCommand, RemoteProcesses } from './remote-process.ts'
import { agentOf, type RunParts } from './run.ts'
import { sandboxIDOf } from './sandbox-name.ts'
import type { AgentAccess, TeamClient } from './team-client.ts'
import type { Given } from './verbs.ts'

const command = 'warren sandbox'
export const defaultMaxMB = '10240'
/** The log and the list of processes of a sandbox are about what its user runs there. */
const unlogged = { WARREN_LOG: 'off' }
/** As much of what tar says is shown. */
const longestComplaint = 2000

export async function copyCommand({ words, values }: Given, parts: RunParts): Promise<string> {
  const [source, target] = words.map(targetOf)
  const maxBytes = positiveNumber('max-mb', values['max-mb'] ?? defaultMaxMB, command) * 2 ** 20
  const sandboxID = source?.sandboxID ?? target?.sandboxID
  if (!source || !target || !sandboxID || (source.sandboxID && target.sandboxID))
    throw new UsageError('Either SOURCE or TARGET must be SANDBOX:PATH.', command)
  const client = await parts.connect()
  const agent = await agentOf(client, await sandboxIDOf(client, sandboxID), values.user)
  const files = new SandboxFiles(client, agent)
  const message = target.sandboxID
    ? await copyIn(files, source.path, target.path)
    : await copyOut(files, source.path, target.path, maxBytes)
  return plainLines(message)
}

/** A word with a colon before any slash names a sandbox. */
function targetOf(text: string): { sandboxID?: string; path: string } {
  const [, sandboxID, path] = /^([A-Za-z0-9][\w.-]*):(.*)$/s.exec(text) ?? []
  return sandboxID !== undefined && path !== undefined ? { sandboxID, path: path || '.' } : { path: text }
}

async function copyIn(files: SandboxFiles, source: string, wanted: string): Promise<string> {
  const found = await stat(source).catch((error) => {
    if (error.code === 'ENOENT') throw refusal(`There is no file or folder '${source}'.`)
    throw refusal(`'${source}' cannot be read: ${errorText(error)}`)
  })
  const path = await files.absolute(wanted)
  const target = await files.stat(path)
  const inside = posix.join(path, basename(resolve(source)))
  if (found.isFile()) {
    if (!target && wanted.endsWith('/')) throw refusal(`The sandbox has no folder '${wanted}'.`)
    const to = target?.isFolder ? inside : path
    await files.writeFile(to, source, found)
    return `${source} was copied to ${to}.`
  }
  if (!found.isDirectory()) throw refusal(`'${source}' is neither a file nor a folder.`)
  if (target && !target.isFolder) throw refusal(`'${wanted}' is a file in the sandbox, not a folder.`)
  const to = target && !isContents(source) ? inside : path
  await files.writeFolder(to, source)
  return `${source} was copied to ${to}.`
}

async function copyOut(
  files: SandboxFiles,
  wanted: string,
  target: string,
  maxBytes: number,
): Promise<string> {
  const path = await files.absolute(wanted)
  const found = await files.stat(path)
  if (!found) throw refusal(`The sandbox has no '${wanted}'.`)
  const local = await stat(target).catch(() => undefined)
  const name = posix.basename(path)
  const isInside = local?.isDirectory() === true && !(found.isFolder && (isContents(wanted) || name === ''))
  const to = isInside ? join(target, name) : target
  if (found.isFolder && local && !local.isDirectory()) throw refusal(`'${target}' is a file, not a folder.`)
  if (!found.isFolder && !local && target.endsWith('/')) throw refusal(`There is no folder '${target}'.`)
  const folder = found.isFolder ? to : dirname(to)
  await requireFolder(found.isFolder ? dirname(resolve(to)) : folder)
  if (found.isFolder) mkdirSync(to, { recursive: true })
  const fileName = found.isFolder ? {} : { fileName: basename(to) }
  const leftOut = await files.readInto(found, { folder, maxBytes, ...fileName })
  const note = leftOut === 0 ? '' : ` ${leftOut} devices or pipes were left out.`
  return `${wanted} was copied to ${to}.${note}`
}

/** `folder/.` and `.` mean what the folder holds. */
const isContents = (path: string): boolean => posix.basename(path) === '.'

async function requireFolder(path: string): Promise<void> {
  const found = await stat(path).catch(() => undefined)
  if (!found?.isDirectory()) throw refusal(`There is no folder '${path}'.`)
}

const refusal = (message: string) => new AppError('invalid_argument', message)

type RemoteEntry = {
  /** Absolute, with the links of the last name followed. */
  path: string
  isFolder: boolean
}

class SandboxFiles {
  readonly #client: TeamClient
  readonly #agent: AgentAccess
  readonly #processes: RemoteProcesses

  constructor(client: TeamClient, agent: AgentAccess) {
    this.#client = client
    this.#agent = agent
    this.#processes = new RemoteProcesses(client, agent)
  }

  /** A path that is not absolute begins in the folder in which commands of the user run. */
  async absolute(path: string): Promise<string> {
    if (path.startsWith('/')) return posix.normalize(path)
    const base = await this.stat('.')
    return posix.resolve(base?.path ?? '/', path)
  }

  /** Undefined: the agent says that there is nothing at this path. */
  async stat(path: string): Promise<RemoteEntry | undefined> {
    try {
      const answer = await this.#client.callAgent(this.#agent, {
        path: '/filesystem.Filesystem/Stat',
        headers: { 'content-type': 'application/json', 'connect-protocol-version': '1' },
        body: Buffer.from(JSON.stringify({ path })),
      })
      return entryIn(await textOf(answer))
    } catch (error) {
      if (isAppError(error, 'not_found')) return undefined
      throw error
    }
  }

  async writeFile(path: string, source: string, { size, mode }: Stats): Promise<void> {
    const query = new URLSearchParams({ path, ...(this.#agent.user && { username: this.#agent.user }) })
    const answer = await this.#client.callAgent(this.#agent, {
      path: `/files?${query}`,
      headers: { 'content-type': 'application/octet-stream', 'content-length': size },
      // A file that grows meanwhile is copied as long as it was.
      body: size === 0 ? Buffer.alloc(0) : createReadStream(source, { end: size - 1 }),
    })
    answer.resume()
    if (mode & 0o111) await this.#run(['chmod', (mode & 0o777).toString(8), path], undefined)
  }

  async writeFolder(path: string, source: string): Promise<void> {
    const names = await readdir(source)
    const list = ['--null', '--verbatim-files-from', '--files-from=-']
    const child = spawn('tar', ['--create', '--file=-', `--directory=${source}`, ...list])
    await once(child, 'spawn').catch((error) => {
      throw refusal(`A folder is copied by \`tar\`, which cannot be run here: ${errorText(error)}`)
    })
    let complaint = ''
    child.stderr.on('data', (chunk: Buffer) => {
      complaint = `${complaint}${chunk}`.slice(0, longestComplaint)
    })
    // Node drops what a child has written and nobody reads when the child ends.
    const archive = child.stdout.pipe(new PassThrough())
    child.stdin.on('error', () => {})
    child.stdin.end(names.map((name) => `./${name}\0`).join(''))
    const code = new Promise<number | null>((done, fail) => child.on('close', done).on('error', fail))
    const failed = (why: string) => refusal(`'${source}' could not be read: ${why}`)
    const script = 'mkdir -p -- "$0" && exec tar -xof - -C "$0"'
    try {
      await this.#run(['/bin/sh', '-c', script, path], archive)
    } catch (error) {
      child.kill()
      await code
      throw complaint === '' ? error : failed(complaint.trim())
    }
    const ended = await code
    if (ended !== 0) throw failed(complaint.trim() || `tar ended with ${ended}`)
  }

  /** Returns how many entries were left out because they are neither files, folders nor links. */
  async readInto(
    { path, isFolder }: RemoteEntry,
    target: { folder: string; fileName?: string; maxBytes: number },
  ): Promise<number> {
    const writer = new ArchiveWriter(target)
    const reader = new TarReader(writer)
    const stop = new AbortController()
    let failure: unknown
    const sink = new Writable({
      write(chunk, _encoding, done) {
        try {
          if (failure === undefined) {
            reader.push(chunk)
            writer.noteReceived(chunk.length)
          }
        } catch (error) {
          failure = error
          stop.abort(error)
        }
        done()
      },
    })
    const [folder, name] = isFolder ? [path, '.'] : [posix.dirname(path), posix.basename(path)]
    try {
      await this.#run(['tar', '-cf', '-', '-C', folder, '--', name], undefined, sink, stop.signal)
      reader.finish()
      writer.finish()
      return writer.leftOut
    } catch (error) {
      throw failure ?? error
    } finally {
      writer.close()
    }
  }

  async #run(
    [cmd, ...args]: [string, ...string[]],
    input: Readable | undefined,
    output: Writable = new Writable({ write: (_chunk, _encoding, done) => done() }),
    signal?: AbortSignal,
  ): Promise<void> {
    let complaint = ''
    const errors = new Writable({
      write(chunk, _encoding, done) {
        complaint = `${complaint}${chunk}`.slice(0, longestComplaint)
        done()
      },
    })
    const remote: RemoteCommand = { cmd, args, envs: unlogged, cwd: '/' }
    const code = await this.#processes.runWithPipes(remote, { input, output, errors }, signal)
    if (code === 0) return
    throw new AppError(
      'unavailable',
      `The sandbox could not copy it: ${plainLines(complaint) || `${cmd} ended with ${code}`}`,
    )
  }
}

const longestEntry = 64 * 1024

async function textOf(answer: AsyncIterable<Buffer>): Promise<string> {
  let text = ''
  for await (const chunk of answer) {
    text += chunk
    if (text.length > longestEntry)
      throw new AppError('payload_too_large', 'The sandbox sent a description without end.')
  }
  return text
}

function entryIn(text: string): RemoteEntry {
  const { entry } = JSON.parse(text) as { entry?: { path?: string; type?: string; symlinkTarget?: string } }
  return { path: entry?.symlinkTarget || entry?.path || '/', isFolder: entry?.type === 'FILE_TYPE_DIRECTORY' }
}
