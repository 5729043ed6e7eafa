import { closeSync, constants, mkdirSync, openSync, writeSync } from 'node:fs'
import type { IncomingMessage, ServerResponse } from 'node:http'
import { join } from 'node:path'
import { AppError } from '../lib/app-error.ts'
import { tokenOf } from './access.ts'
import type { Identity, InitRequest } from './identity.ts'
import { readJSON } from './read-body.ts'

const largestBodyMB = 8
/**
 * Root inside may have put a pipe or a link in this place: do not block on a pipe's reader, and do not follow
 * a link.
 */
const { O_WRONLY, O_CREAT, O_TRUNC, O_NOFOLLOW, O_NONBLOCK } = constants
const publishing = O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW | O_NONBLOCK
const publishedNames = ['E2B_SANDBOX', 'E2B_SANDBOX_ID', 'E2B_TEMPLATE_ID']

export type InitFolders = {
  /** The folder in which the sandbox's ID and template are written for programs inside. */
  runFolder: string
  /** The root of the sandbox's own files. */
  systemRoot: string
}

/**
 * Takes the identity from the control plane. Once there is a token, only its holder may change anything: a
 * process inside the sandbox can reach this route too. `isAnother`: the agent belongs to another sandbox now,
 * because it was started from the memory of a sandbox that lives on.
 */
export async function initRoute(
  identity: Identity,
  { runFolder, systemRoot }: InitFolders,
  request: IncomingMessage,
  response: ServerResponse,
): Promise<{ isAnother: boolean }> {
  if (identity.hasToken && !identity.tokenMatches(tokenOf(request))) {
    throw new AppError(
      'unauthenticated',
      'the agent has its identity; only who holds its token may change it',
    )
  }
  const given = parse(await readJSON(request, largestBodyMB))
  const { accessToken } = given
  if (given.caBundle) {
    // Loaded here because few sandboxes need it.
    const { trustAuthorities } = await import('./trust.ts')
    identity.trustVars = trustAuthorities(given.caBundle, systemRoot)
  }
  const isAnother = identity.hasToken && accessToken !== undefined && !identity.tokenMatches(accessToken)
  identity.apply(given)
  // The control plane waits for this answer and knows the time, so Node's setup for a first date is
  // postponed.
  response.sendDate = false
  response.writeHead(204, { 'cache-control': 'no-store' }).end()
  // A client that sees the answer cannot make a request before this is done: the agent does one thing at a
  // time.
  publish(identity.envVars, runFolder)
  return { isAnother }
}

function parse(body: unknown = {}): InitRequest {
  if (typeof body !== 'object' || body === null || Array.isArray(body)) throw wrong('the body', 'an object')
  const given = body as Record<string, unknown>
  const { envVars, accessToken, secure, defaultUser, defaultWorkdir, caBundle, hasOwner } = given
  return {
    ...(envVars != null && { envVars: textMap(envVars) }),
    ...(accessToken != null && { accessToken: textOf(accessToken, 'accessToken') }),
    ...(typeof secure === 'boolean' && { secure }),
    ...(defaultUser != null && { defaultUser: textOf(defaultUser, 'defaultUser') }),
    ...(defaultWorkdir != null && { defaultWorkdir: textOf(defaultWorkdir, 'defaultWorkdir') }),
    ...(caBundle != null && { caBundle: textOf(caBundle, 'caBundle') }),
    ...(hasOwner === false && { hasOwner }),
  }
}

function textOf(value: unknown, name: string): string {
  if (typeof value !== 'string') throw wrong(name, 'a string')
  return value
}

function textMap(value: unknown): Record<string, string> {
  if (typeof value !== 'object' || value === null) throw wrong('envVars', 'an object of strings')
  for (const item of Object.values(value))
    if (typeof item !== 'string') throw wrong('envVars', 'an object of strings')
  return value as Record<string, string>
}

function wrong(name: string, wanted: string): AppError {
  return new AppError('invalid_argument', `${name} must be ${wanted}`)
}

/**
 * Programs inside read the sandbox's ID and template from these files. A sandbox without /run still works.
 */
function publish(envVars: Record<string, string>, runFolder: string): void {
  const published = publishedNames.filter((name) => envVars[name] !== undefined)
  if (published.length === 0) return
  try {
    mkdirSync(runFolder, { recursive: true, mode: 0o755 })
    for (const name of published) write(join(runFolder, `.${name}`), envVars[name]!)
  } catch {}
}

function write(path: string, text: string): void {
  const file = openSync(path, publishing, 0o644)
  try {
    writeSync(file, text)
  } finally {
    closeSync(file)
  }
}
