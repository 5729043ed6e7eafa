/** Speaks to the operator's surface of a running server, and turns its refusals into messages. */
import http from 'node:http'
import https from 'node:https'
import { header } from '../contract/constants.ts'
import type { PruneReport } from '../contract/rest/prune.ts'
import type { ApiKey, Team } from '../contract/rest/team.ts'
import { AppError, type ErrorCode, errorText } from '../lib/app-error.ts'

export type ServerAccess = {
  url: string
  adminToken: string
  /** The one certificate to trust, when the server shows one: its names are not those of this machine. */
  certificate?: string
}

export type LimitChanges = Partial<Team['limits']>
export type CreatedKey = ApiKey & { key: string }

const answerWithinMs = 30_000
const pruneWithinMs = 1_800_000

export class AdminClient {
  readonly #access: ServerAccess

  constructor(access: ServerAccess) {
    this.#access = access
  }

  listTeams(): Promise<Team[]> {
    return this.#call('GET', '/admin/teams')
  }

  createTeam(name: string): Promise<Team> {
    return this.#call('POST', '/admin/teams', { name })
  }

  changeLimits(teamID: string, changes: LimitChanges): Promise<Team> {
    return this.#call('PATCH', `/admin/teams/${encodeURIComponent(teamID)}/limits`, changes)
  }

  listKeys(teamID: string): Promise<ApiKey[]> {
    return this.#call('GET', `/admin/teams/${encodeURIComponent(teamID)}/api-keys`)
  }

  createKey(teamID: string, name: string): Promise<CreatedKey> {
    return this.#call('POST', `/admin/teams/${encodeURIComponent(teamID)}/api-keys`, { name })
  }

  revokeKey(teamID: string, keyID: string): Promise<void> {
    const path = `/admin/teams/${encodeURIComponent(teamID)}/api-keys/${encodeURIComponent(keyID)}`
    return this.#call('DELETE', path)
  }

  /** Takes as long as the disk does. */
  prune(dryRun: boolean): Promise<PruneReport> {
    return this.#call('POST', '/admin/prune', { dryRun }, pruneWithinMs)
  }

  /** By slug, id or name, since a person knows any of them. */
  async findTeam(word: string): Promise<Team> {
    const teams = await this.listTeams()
    const found =
      teams.find((team) => team.slug === word || team.teamID === word) ??
      teams.find((team) => team.name === word)
    if (found) return found
    const known = teams.map((team) => team.slug).join(', ')
    throw new AppError('not_found', `There is no team '${word}'. The teams are: ${known || '(none)'}.`)
  }

  async #call<T>(method: string, path: string, body?: unknown, withinMs = answerWithinMs): Promise<T> {
    const { status, text } = await this.#send(method, path, body, withinMs)
    const answer = parseJson(text)
    if (status >= 200 && status < 300) return answer as T
    const said = (answer as { message?: string } | undefined)?.message ?? text.trim()
    throw new AppError(codeOf(status), said || `The server answered ${status} to ${method} ${path}.`)
  }

  #send(
    method: string,
    path: string,
    body: unknown,
    withinMs: number,
  ): Promise<{ status: number; text: string }> {
    const { url, adminToken, certificate } = this.#access
    const payload = body === undefined ? undefined : JSON.stringify(body)
    const headers = {
      [header.adminToken]: adminToken,
      ...(payload !== undefined && {
        'content-type': 'application/json',
        'content-length': Buffer.byteLength(payload),
      }),
    }
    const tls = certificate && {
      ca: certificate,
      allowPartialTrustChain: true,
      checkServerIdentity: () => undefined,
    }
    const target = new URL(path, url)
    return new Promise((resolve, reject) => {
      const module = target.protocol === 'https:' ? https : http
      const request = module.request(target, { method, headers, timeout: withinMs, ...tls }, (response) => {
        const chunks: Buffer[] = []
        response.on('data', (chunk: Buffer) => chunks.push(chunk))
        response.on('end', () =>
          resolve({ status: response.statusCode ?? 0, text: Buffer.concat(chunks).toString() }),
        )
        response.on('error', (error) => reject(unreachable(url, error)))
      })
      request.on('timeout', () => request.destroy(new Error(`no answer within ${withinMs / 1000} s`)))
      request.on('error', (error) => reject(unreachable(url, error)))
      request.end(payload)
    })
  }
}

function unreachable(url: string, error: unknown): AppError {
  const message = `Warren does not answer at ${url} (${errorText(error)}). Start it with \`npm start\`.`
  return new AppError('unavailable', message, { cause: error })
}

function parseJson(text: string): unknown {
  try {
    return text === '' ? undefined : JSON.parse(text)
  } catch {
    return undefined
  }
}

function codeOf(status: number): ErrorCode {
  if (status === 404) return 'not_found'
  if (status === 401 || status === 403) return 'permission_denied'
  if (status === 409) return 'already_exists'
  return status < 500 ? 'invalid_argument' : 'unavailable'
}
