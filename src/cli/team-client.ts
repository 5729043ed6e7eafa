/** Calls a running server like any client of a team. */
import type { IncomingMessage } from 'node:http'
import { envdPort, header } from '../contract/constants.ts'
import type { Delivery, Webhook } from '../contract/rest/event.ts'
import type { SandboxLogEntry } from '../contract/rest/logs.ts'
import type { ListedSandbox, SandboxDetail } from '../contract/rest/sandbox.ts'
import type { Template } from '../contract/rest/template.ts'
import { sandboxOrigin } from '../contract/sandbox-origin.ts'
import { AppError } from '../lib/app-error.ts'
import { requestServer } from '../lib/server-request.ts'
import { type Call, callServer } from './http-call.ts'
import type { TeamAccess } from './template-client.ts'

export type ForkedSandbox = { sandbox?: { sandboxID: string }; error?: { code: number; message: string } }
export type LogsAsked = { cursor?: number; limit?: number; direction: 'forward' | 'backward'; level?: string }
export type NewWebhookFields = { name: string; url: string; events: string[]; signatureSecret: string }

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

  /** Reads all pages. */
  async listSandboxes(query: Record<string, string>): Promise<ListedSandbox[]> {
    const found: ListedSandbox[] = []
    let nextToken: string | undefined
    do {
      const words = new URLSearchParams({ ...query, ...(nextToken !== undefined && { nextToken }) })
      const page = await this.#call<ListedSandbox[]>({
        method: 'GET',
        target: `/v2/sandboxes?${words}`,
        onHeaders: (headers) => {
          nextToken = headers[header.nextToken] as string | undefined
        },
      })
      found.push(...page)
    } while (nextToken)
    return found
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

  resume(sandboxID: string, timeout: number): Promise<{ sandboxID: string }> {
    return this.#do(sandboxID, 'connect', { timeout })
  }

  fork(sandboxID: string, request: { count: number; timeout?: number }): Promise<ForkedSandbox[]> {
    return this.#do(sandboxID, 'fork', request)
  }

  listTemplates(): Promise<Template[]> {
    return this.#call({ method: 'GET', target: '/templates' })
  }

  deleteTemplate(template: string): Promise<void> {
    return this.#call({ method: 'DELETE', target: `/templates/${encodeURIComponent(template)}` })
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

  /** Calls the sandbox's agent. Resolves with the head of its answer, which may be a stream. */
  callAgent(agent: AgentAccess, method: string, contentType: string, body: Buffer): Promise<IncomingMessage> {
    const { sandboxID, accessToken } = agent
    const target = `${sandboxOrigin(this.#access.url, sandboxID, envdPort)}/process.Process/${method}`
    const headers = {
      [header.sandboxID]: sandboxID,
      [header.sandboxPort]: String(envdPort),
      ...(accessToken !== undefined && { [header.accessToken]: accessToken }),
      ...(agent.user !== undefined && { authorization: basicUser(agent.user) }),
      'content-type': contentType,
      'content-length': body.length,
      'connect-protocol-version': '1',
    }
    return new Promise((resolve, reject) => {
      const request = requestServer(this.#access, target, { method: 'POST', headers, withinMs: silenceMs })
      request.on('error', reject)
      request.on('response', (response) => {
        if (response.statusCode === 200) return resolve(response)
        reject(new AppError('unavailable', `The sandbox answered ${response.statusCode} to ${method}.`))
        response.resume()
      })
      request.end(body)
    })
  }

  #do<T>(sandboxID: string, verb: string, json: unknown): Promise<T> {
    const target = `/sandboxes/${encodeURIComponent(sandboxID)}/${verb}`
    return this.#call({ method: 'POST', target, body: { json }, withinMs: slowWithinMs })
  }

  #call<T>(call: Call): Promise<T> {
    return callServer(this.#access, { ...call, headers: { [header.apiKey]: this.#access.apiKey } })
  }
}

export type AgentAccess = { sandboxID: string; accessToken: string | undefined; user: string | undefined }

/** The agent sends a sign of life at least every minute. */
const silenceMs = 180_000

const basicUser = (user: string) => `Basic ${Buffer.from(`${user}:`).toString('base64')}`
