/** Calls a running server about members, keys and the audit: as the operator for any team, or with a key of a team. */
import { createInterface } from 'node:readline'
import { header } from '../contract/constants.ts'
import type { AuditEntry } from '../contract/rest/audit.ts'
import type { Member } from '../contract/rest/person.ts'
import type { ApiKey, Team } from '../contract/rest/team.ts'
import { AppError } from '../lib/app-error.ts'
import { requestServer } from '../lib/server-request.ts'
import { AdminClient, type ServerAccess } from './admin-client.ts'
import { type Call, callServer, rejectionOf } from './http-call.ts'
import type { TeamAccess } from './template-client.ts'

type PeopleAccess = { admin: ServerAccess } | { team: TeamAccess }
type OwnTeamEntry = { teamID: string; name: string; slug?: string }
type NamedTeam = Pick<Team, 'teamID' | 'slug'>
type WantedApiKey = { name: string; role?: string; expiresAt?: string; service?: boolean }

/** The server sends a sign of life more often. */
const silenceMs = 60_000

export class PeopleClient {
  readonly #access: PeopleAccess

  constructor(access: PeopleAccess) {
    this.#access = access
  }

  /** True if it acts with the admin token. */
  get isOperator(): boolean {
    return 'admin' in this.#access
  }

  /** By slug, ID or name. A key has one team, which is found without a word. */
  async findTeam(word: string | undefined): Promise<NamedTeam> {
    if ('admin' in this.#access) return new AdminClient(this.#access.admin).findTeam(word ?? '')
    const [own] = await this.#call<OwnTeamEntry[]>('', 'GET', '/teams')
    const slug = own?.slug ?? own?.name ?? ''
    if (own && (word === undefined || [own.teamID, own.name, slug].includes(word)))
      return { teamID: own.teamID, slug }
    throw new AppError('permission_denied', `The key is of the team '${slug}', not of '${word}'.`)
  }

  listMembers(teamID: string): Promise<Member[]> {
    return this.#call(teamID, 'GET', membersOf(teamID))
  }

  addMember(teamID: string, email: string, role: string): Promise<Member> {
    return this.#call(teamID, 'POST', membersOf(teamID), { email, role })
  }

  setRole(teamID: string, personID: string, role: string): Promise<void> {
    return this.#call(teamID, 'PATCH', `${membersOf(teamID)}/${encodeURIComponent(personID)}`, { role })
  }

  removeMember(teamID: string, personID: string): Promise<void> {
    return this.#call(teamID, 'DELETE', `${membersOf(teamID)}/${encodeURIComponent(personID)}`)
  }

  /** By e-mail address, ID or name. */
  async findMember(teamID: string, word: string): Promise<Member> {
    const members = await this.listMembers(teamID)
    const found = members.filter(({ personID, email, name }) =>
      [personID, email, name].some((each) => each?.toLowerCase() === word.toLowerCase()),
    )
    if (found.length === 1) return found[0]!
    const why = found.length === 0 ? 'no member has this address' : 'several members have this name'
    throw new AppError('not_found', `'${word}': ${why}. \`warren team member list\` shows the members.`)
  }

  listKeys(teamID: string): Promise<ApiKey[]> {
    return this.#call(teamID, 'GET', '/api-keys')
  }

  createKey(teamID: string, wanted: WantedApiKey): Promise<ApiKey & { key: string }> {
    return this.#call(teamID, 'POST', '/api-keys', wanted)
  }

  revokeKey(teamID: string, keyID: string): Promise<void> {
    return this.#call(teamID, 'DELETE', `/api-keys/${encodeURIComponent(keyID)}`)
  }

  /** Of all teams without one. The newest entries first, `limit` at most. */
  async readAudit(
    teamID: string | undefined,
    query: Record<string, string>,
    limit: number,
  ): Promise<AuditEntry[]> {
    const entries: AuditEntry[] = []
    let nextToken: string | undefined
    do {
      const page = String(Math.min(100, limit - entries.length))
      const words = new URLSearchParams({ ...query, limit: page, ...(nextToken && { nextToken }) })
      nextToken = undefined
      const target = `${auditOf(teamID)}?${words}`
      const found = await this.#call<AuditEntry[]>(teamID ?? '', 'GET', target, undefined, (headers) => {
        const token = headers[header.nextToken]
        if (typeof token === 'string') nextToken = token
      })
      entries.push(...found)
    } while (nextToken !== undefined && entries.length < limit)
    return entries
  }

  /** Calls back for each new entry until the server ends the answer. */
  async followAudit(
    teamID: string | undefined,
    query: Record<string, string>,
    onEntry: (entry: AuditEntry) => void,
  ): Promise<void> {
    const target = `${auditOf(teamID)}?${new URLSearchParams({ ...query, follow: 'true' })}`
    const headers = this.#headers(teamID ?? '')
    const { promise, resolve, reject } = Promise.withResolvers<void>()
    const request = requestServer(this.#address, target, { method: 'GET', headers, withinMs: silenceMs })
    request.on('error', (cause) => reject(new AppError('unavailable', cause.message, { cause })))
    request.on('response', (response) => {
      if (response.statusCode !== 200) return void rejectionOf(response).then(reject, reject)
      response.on('error', () => resolve())
      const lines = createInterface({ input: response, crlfDelay: Number.POSITIVE_INFINITY })
      // It repeats the error of its input.
      lines.on('error', () => resolve())
      lines.on('line', (line) => {
        if (line.trim() !== '') onEntry(JSON.parse(line))
      })
      lines.on('close', resolve)
    })
    request.end()
    return promise
  }

  get #address() {
    return 'admin' in this.#access ? this.#access.admin : this.#access.team
  }

  #headers(teamID: string): Record<string, string> {
    const access = this.#access
    if ('team' in access) return { [header.apiKey]: access.team.apiKey }
    return { [header.adminToken]: access.admin.adminToken, ...(teamID !== '' && { [header.teamID]: teamID }) }
  }

  #call<T>(
    teamID: string,
    method: string,
    target: string,
    json?: unknown,
    onHeaders?: Call['onHeaders'],
  ): Promise<T> {
    const headers = this.#headers(teamID)
    const body = json === undefined ? {} : { body: { json } }
    return callServer(this.#address, { method, target, headers, ...body, ...(onHeaders && { onHeaders }) })
  }
}

const membersOf = (teamID: string): string => `/teams/${encodeURIComponent(teamID)}/members`
const auditOf = (teamID: string | undefined): string =>
  teamID === undefined ? '/admin/audit' : `/teams/${encodeURIComponent(teamID)}/audit`
