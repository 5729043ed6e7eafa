/** Tools for work inside a sandbox: commands, code and files. */
import { isUtf8 } from 'node:buffer'
import { Type } from 'typebox'
import { AppError } from '../lib/app-error.ts'
import { runCode } from './run-code.ts'
import { type ProcessOutcome, runProcess } from './run-process.ts'
import { SandboxID, TimeoutSeconds, type Tool, type ToolAnswer, tool } from './tool.ts'

const maxFileBytes = 100_000
const maxEntries = 1000

const Path = Type.String({ description: "Absolute, or relative to the user's home." })

const runCommand = tool({
  name: 'run_command',
  description:
    'Run a command with bash in a sandbox and return its exit status, stdout and stderr. Long output is cut in the middle. ' +
    'Start servers with background: true.',
  input: Type.Object({
    sandboxID: SandboxID,
    command: Type.String({ minLength: 1 }),
    cwd: Type.Optional(Path),
    user: Type.Optional(Type.String({ description: "Default: 'user'; 'root' may do everything." })),
    envs: Type.Optional(Type.Record(Type.String(), Type.String())),
    timeoutSeconds: TimeoutSeconds,
    background: Type.Boolean({ default: false, description: 'Return its pid at once and let it run.' }),
  }),
  async run(client, { sandboxID, ...request }, signal) {
    const agent = await client.agentOf(sandboxID, signal)
    return shownOutcome(await runProcess(client, agent, request, signal))
  },
})

function shownOutcome({ pid, stdout, stderr, status }: ProcessOutcome): ToolAnswer {
  if (status === undefined) return { content: [{ type: 'text', text: `Started with pid ${pid}.` }] }
  const parts = [status]
  if (`${stdout}`) parts.push(`stdout:\n${stdout}`)
  if (`${stderr}`) parts.push(`stderr:\n${stderr}`)
  const isError = status !== 'exit status 0'
  return { content: [{ type: 'text', text: parts.join('\n') }], ...(isError && { isError }) }
}

const runCodeTool = tool({
  name: 'run_code',
  description:
    "Run code in a sandbox of the template 'code-interpreter-v1'. Names stay defined from one call to the next; charts come back as images.",
  input: Type.Object({
    sandboxID: SandboxID,
    code: Type.String({ minLength: 1 }),
    language: Type.String({
      default: 'python',
      description: 'python, javascript, typescript or bash; r and java where the template has them.',
    }),
    timeoutSeconds: TimeoutSeconds,
  }),
  async run(client, { sandboxID, ...request }, signal) {
    const agent = await client.agentOf(sandboxID, signal)
    const { printed, results, images, failed } = await runCode(client, agent, request, signal)
    const shown = images.map((data) => ({ type: 'image' as const, data, mimeType: 'image/png' }))
    const text = [printed, results].map((part) => `${part}`.replace(/[^\n]$/, '$&\n')).join('')
    return {
      content: [{ type: 'text', text: text || 'It ended without output.' }, ...shown],
      ...(failed && { isError: true }),
    }
  },
})

const readFile = tool({
  name: 'read_file',
  description: `Read a file of a sandbox, at most ${maxFileBytes} bytes at once. Binary data is returned in base64.`,
  input: Type.Object({
    sandboxID: SandboxID,
    path: Path,
    offset: Type.Integer({ minimum: 0, default: 0, description: 'The first byte to read.' }),
  }),
  async run(client, { sandboxID, path, offset }, signal) {
    const response = await client.reach(await client.agentOf(sandboxID, signal), {
      method: 'GET',
      path: filesPath(path),
      signal,
      headers: { 'accept-encoding': 'identity', ...(offset > 0 && { range: `bytes=${offset}-` }) },
    })
    const total = Number(
      response.headers['content-range']?.split('/')[1] ?? response.headers['content-length'],
    )
    const bytes = await client.read(response, maxFileBytes, true)
    const text = isUtf8(bytes) ? bytes.toString() : `base64: ${bytes.toString('base64')}`
    const end = offset + bytes.length
    return end < total ? `${text}\n[Bytes ${offset} to ${end} of ${total}: go on with offset ${end}.]` : text
  },
})

const writeFile = tool({
  name: 'write_file',
  description: 'Write a file in a sandbox, and create the folders above it. Replaces an existing file.',
  input: Type.Object({
    sandboxID: SandboxID,
    path: Path,
    content: Type.String(),
    encoding: Type.Union([Type.Literal('utf8'), Type.Literal('base64')], { default: 'utf8' }),
  }),
  async run(client, { sandboxID, path, content, encoding }, signal) {
    const body = Buffer.from(content, encoding)
    const response = await client.reach(await client.agentOf(sandboxID, signal), {
      method: 'POST',
      path: filesPath(path),
      body,
      signal,
      headers: { 'content-type': 'application/octet-stream' },
    })
    response.resume()
    return `Wrote ${body.length} bytes to ${path}.`
  },
})

type Listing = { entries?: { path?: string; type?: string; size?: string }[] }

const listFiles = tool({
  name: 'list_files',
  description: 'List the contents of a folder of a sandbox.',
  input: Type.Object({
    sandboxID: SandboxID,
    path: Type.String({ default: '.', description: "Absolute, or relative to the user's home." }),
    depth: Type.Integer({ minimum: 1, maximum: 5, default: 1 }),
  }),
  async run(client, { sandboxID, path, depth }, signal) {
    const agent = await client.agentOf(sandboxID, signal)
    const listing = client.call<Listing>(agent, 'filesystem.Filesystem/ListDir', { path, depth }, signal)
    const { entries = [] } = await listing.catch(tooMany)
    const lines = entries.slice(0, maxEntries).map(({ path: name = '', type, size = '0' }) => {
      if (type === 'FILE_TYPE_DIRECTORY') return `${name}/`
      return type === 'FILE_TYPE_SYMLINK' ? `${name} (link)` : `${name} (${size} bytes)`
    })
    if (entries.length > maxEntries) lines.push(`[… and ${entries.length - maxEntries} more]`)
    return lines.join('\n') || 'The folder is empty.'
  },
})

function tooMany(error: unknown): never {
  if (!(error instanceof AppError) || error.code !== 'payload_too_large') throw error
  throw new AppError(
    'payload_too_large',
    'The folder has too many entries. Use run_command with find and head.',
  )
}

const filesPath = (path: string) => `/files?path=${encodeURIComponent(path)}`

export const workTools: readonly Tool[] = [runCommand, runCodeTool, readFile, writeFile, listFiles]
