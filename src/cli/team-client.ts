/** Calls a running server like any client of a team. */
import type { IncomingMessage, OutgoingHttpHeaders } from 'node:http'
import type { Socket } from 'node:net'
import type { Readable } from 'node:stream'
import { pipeline } from 'node:stream/promises'
import { envdPort, header } from '../contract/constants.ts'
import type { Delivery, Webhook } from '../contract/rest/event.ts'
import type { SandboxLogEntry } from '../contract/rest/logs.ts'
import type { NewOnDemandTemplate, PreparedTemplate } from '../contract/rest/on-demand.ts'
import type { ListedSandbox, NewSandbox, Sandbox, SandboxDetail } from '../contract/rest/sandbox.ts'
import type { Secret } from '../contract/rest/secret.ts'
import type { BuildStatusAnswer, Template } from '../contract/rest/template.ts'
import type { Volume } from '../contract/rest/volume.ts'
import { sandboxOrigin } from '../contract/sandbox-origin.ts'
import { AppError, errorText, isAppError } from '../lib/app-error.ts'
import { requestServer } from '../lib/server-request.ts'
import { type Call, callServer, rejectionOf } from './http-call.ts'
import type { TeamAccess } from './template-client.ts'

type ForkedSandbox = { sandbox?: { sandboxID: string }; error?: { code: number; message: string } }
type LogsAsked = { cursor?: number; limit?: number; direction: 'forward' | 'backward'; level?: string }
export type MadeSnapshot = { snapshotID: string; names: string[] }
export type SecretFields = { value: string; metadata?: Record<string, string> }
type NewWebhookFields = { name: string; url: string; events: string[]; signatureSecret: string }

/** A pause writes memory to the disk, and a resume may wait for its turn. */
const slowWithinMs = 300_000

/** For the help of commands that act for a team. */
export const whichServer =
  'E2B_API_KEY, with E2B_API_URL or E2B_DOMAIN, chooses server and team; else it is the server on this machine.'

export class TeamClient {
  readonly #access: TeamAccess

  constructor(access: TeamAccess) {
    this.#access = access
  }

  /** `http:` or `https:`. */
  get protocol(): string {
    return new URL(this.#access.url).protocol
  }

  get url(): string {
    return this.#access.url
  }

  listTeams(): Promise<{ teamID: string }[]> {
    return this.#call({ method: 'GET', target: '/teams' })
  }

  listSandboxes(query: Record<string, string>): Promise<ListedSandbox[]> {
    return this.#allPages('/v2/sandboxes', query)
  }

  createSandbox(wanted: NewSandbox): Promise<Sandbox> {
    return this.#call({
      method: 'POST',
      target: '/sandboxes',
      body: { json: wanted },
      withinMs: slowWithinMs,
    })
  }

  /** The sandbox ends this many seconds from now. */
  async setTimeout(sandboxID: string, timeout: number): Promise<void> {
    await this.#do(sandboxID, 'timeout', { timeout })
  }

  getSandbox(sandboxID: string): Promise<SandboxDetail> {
    return this.#call({ method: 'GET', target: `/sandboxes/${encodeURIComponent(sandboxID)}` })
  }

  async readLogs(sandboxID: string, asked: LogsAsked): Promise<SandboxLogEntry[]> {
    const words = new URLSearchParams()
    for (const [name, value] of Object.entries(asked)) words.set(name, String(value))
    const target = `/v2/sandboxes/${encodeURIComponent(sandboxID)}/logs?${words}`
    return (await this.#call<{ logs: SandboxLogEntry[] }>({ method: 'GET', target })).logs
  }

  kill(sandboxID: string): Promise<void> {
    const target = `/sandboxes/${encodeURIComponent(sandboxID)}`
    return this.#call({ method: 'DELETE', target, withinMs: slowWithinMs })
  }

  pause(sandboxID: string, memory: boolean): Promise<void> {
    return this.#do(sandboxID, 'pause', { memory })
  }

  /** Resumes a paused sandbox; a running one keeps its time if that is longer. */
  resume(sandboxID: string, timeout: number): Promise<Sandbox> {
    return this.#do(sandboxID, 'connect', { timeout })
  }

  fork(sandboxID: string, request: { count: number; timeout?: number }): Promise<ForkedSandbox[]> {
    return this.#do(sandboxID, 'fork', request)
  }

  takeSnapshot(sandboxID: string, request: { name?: string; memory: boolean }): Promise<MadeSnapshot> {
    return this.#do(sandboxID, 'snapshots', request)
  }

  listSnapshots(query: Record<string, string>): Promise<MadeSnapshot[]> {
    return this.#allPages('/snapshots', query)
  }

  listSecrets(): Promise<Secret[]> {
    return this.#allPages('/secrets', {})
  }

  createSecret(name: string, fields: SecretFields): Promise<Secret> {
    return this.#call({ method: 'POST', target: '/secrets', body: { json: { name, ...fields } } })
  }

  updateSecret(secret: string, fields: SecretFields): Promise<Secret> {
    return this.#call({
      method: 'POST',
      target: `/secrets/${encodeURIComponent(secret)}`,
      body: { json: fields },
    })
  }

  deleteSecret(secret: string): Promise<void> {
    return this.#call({ method: 'DELETE', target: `/secrets/${encodeURIComponent(secret)}` })
  }

  listTemplates(): Promise<Template[]> {
    return this.#call({ method: 'GET', target: '/templates' })
  }

  /** Undefined: the team can start no template of this name. */
  async findAlias(name: string): Promise<{ templateID: string } | undefined> {
    try {
      return await this.#call({ method: 'GET', target: `/templates/aliases/${encodeURIComponent(name)}` })
    } catch (error) {
      if (isAppError(error, 'not_found')) return undefined
      throw error
    }
  }

  /** Starts the build of the template of an image or of a size, unless there is one. */
  prepareTemplate(wanted: NewOnDemandTemplate): Promise<PreparedTemplate> {
    return this.#call({ method: 'POST', target: '/templates/on-demand', body: { json: wanted } })
  }

  readBuildStatus(
    { templateID, buildID }: Pick<PreparedTemplate, 'templateID' | 'buildID'>,
    logsOffset: number,
  ): Promise<BuildStatusAnswer> {
    const target = `/templates/${templateID}/builds/${buildID}/status?logsOffset=${logsOffset}`
    return this.#call({ method: 'GET', target })
  }

  deleteTemplate(template: string): Promise<void> {
    return this.#call({ method: 'DELETE', target: `/templates/${encodeURIComponent(template)}` })
  }

  listVolumes(): Promise<Volume[]> {
    return this.#call({ method: 'GET', target: '/volumes' })
  }

  createVolume(name: string): Promise<Volume> {
    return this.#call({ method: 'POST', target: '/volumes', body: { json: { name } } })
  }

  deleteVolume(volumeID: string): Promise<void> {
    return this.#call({ method: 'DELETE', target: `/volumes/${encodeURIComponent(volumeID)}` })
  }

  listWebhooks(): Promise<Webhook[]> {
    return this.#call({ method: 'GET', target: '/events/webhooks' })
  }

  createWebhook(webhook: NewWebhookFields): Promise<Webhook> {
    return this.#call({ method: 'POST', target: '/events/webhooks', body: { json: webhook } })
  }

  deleteWebhook(webhookID: string): Promise<void> {
    return this.#call({ method: 'DELETE', target: `/events/webhooks/${encodeURIComponent(webhookID)}` })
  }

  listDeliveries(webhookID: string): Promise<Delivery[]> {
    const target = `/events/webhooks/${encodeURIComponent(webhookID)}/deliveries?limit=100`
    return this.#call({ method: 'GET', target })
  }

  /** Calls the sandbox's agent. Resolves with the head of a successful answer, which may be a stream. */
  callAgent(agent: AgentAccess, call: AgentCall): Promise<IncomingMessage> {
    const { user } = agent
    const { target, headers: agentHeaders } = this.#toAgent(agent, call.path)
    const headers = {
      ...agentHeaders,
      ...(user !== undefined && { authorization: basicUser(user) }),
      ...(Buffer.isBuffer(call.body) && { 'content-length': call.body.length }),
      ...call.headers,
    }
    const signal = call.signal && { signal: call.signal }
    return new Promise((resolve, reject) => {
      const fail = (error: unknown) => reject(new AppError('unavailable', errorText(error), { cause: error }))
      const request = requestServer(this.#access, target, {
        method: 'POST',
        headers,
        withinMs: silenceMs,
        ...signal,
      })
      request.on('error', fail)
      request.on('response', (response) => {
        if (response.statusCode === 200) resolve(response)
        else rejectionOf(response).then(reject, fail)
      })
      if (Buffer.isBuffer(call.body)) request.end(call.body)
      else pipeline(call.body, request).catch(fail)
    })
  }

  /** Resolves with a connection to the sandbox's agent that speaks another protocol from now on. */
  upgradeAgent(agent: AgentAccess, path: string, protocol: string): Promise<Socket> {
    const { target, headers } = this.#toAgent(agent, path)
    return new Promise((resolve, reject) => {
      const fail = (error: unknown) => reject(new AppError('unavailable', errorText(error), { cause: error }))
      const request = requestServer(this.#access, target, {
        method: 'GET',
        headers: { ...headers, connection: 'Upgrade', upgrade: protocol },
        // A paused sandbox may have to wake.
        withinMs: slowWithinMs,
      })
      request.on('error', fail)
      request.on('response', (response) => void rejectionOf(response).then(reject, fail))
      request.on('upgrade', (_response, socket, head) => {
        socket.setTimeout(0)
        if (head.length > 0) socket.unshift(head)
        resolve(socket as Socket)
      })
      request.end()
    })
  }

  #toAgent({ sandboxID, accessToken }: AgentAccess, path: string) {
    const headers: OutgoingHttpHeaders = {
      [header.sandboxID]: sandboxID,
      [header.sandboxPort]: String(envdPort),
      ...(accessToken !== undefined && { [header.accessToken]: accessToken }),
    }
    return { target: `${sandboxOrigin(this.#access.url, sandboxID, envdPort)}${path}`, headers }
  }

  #do<T>(sandboxID: string, verb: string, json: unknown): Promise<T> {
    const target = `/sandboxes/${encodeURIComponent(sandboxID)}/${verb}`
    return this.#call({ method: 'POST', target, body: { json }, withinMs: slowWithinMs })
  }

  async #allPages<T>(path: string, query: Record<string, string>): Promise<T[]> {
    const found: T[] = []
    let nextToken: string | undefined
    do {
      const words = new URLSearchParams({ ...query, ...(nextToken !== undefined && { nextToken }) })
      const page = await this.#call<T[]>({
        method: 'GET',
        target: words.size === 0 ? path : `${path}?${words}`,
        onHeaders: (headers) => {
          nextToken = headers[header.nextToken] as string | undefined
        },
      })
      found.push(...page)
    } while (nextToken)
    return found
  }

  #call<T>(call: Call): Promise<T> {
    return callServer(this.#access, { ...call, headers: { [header.apiKey]: this.#access.apiKey } })
  }
}

export type AgentAccess = { sandboxID: string; accessToken: string | undefined; user: string | undefined }

type AgentCall = {
  path: string
  headers: OutgoingHttpHeaders
  body: Buffer | Readable
  signal?: AbortSignal
}

/** The agent sends a sign of life at least every minute. */
const silenceMs = 180_000

const basicUser = (user: string) => `Basic ${Buffer.from(`${user}:`).toString('base64')}`
