/** Builds a template on a running server, with the same requests as any client. */
import { header } from '../contract/constants.ts'
import type {
  BuildStatusAnswer,
  FilesAnswer,
  NewTemplate,
  RequestedTemplate,
  StartBuild,
} from '../contract/rest/template.ts'
import type { ServerAddress } from '../lib/server-request.ts'
import { type Call, callServer } from './http-call.ts'

export type TeamAccess = ServerAddress & { apiKey: string }
type BuildOf = Pick<RequestedTemplate, 'templateID' | 'buildID'>

export class TemplateClient {
  readonly #access: TeamAccess

  constructor(access: TeamAccess) {
    this.#access = access
  }

  request(wanted: NewTemplate): Promise<RequestedTemplate> {
    return this.#call({ method: 'POST', target: '/v3/templates', body: { json: wanted } })
  }

  findFiles(templateID: string, hash: string): Promise<FilesAnswer> {
    return this.#call({ method: 'GET', target: `/templates/${templateID}/files/${hash}` })
  }

  /** The link itself carries the permission, so the key is not sent. */
  async upload(link: string, body: { stream: import('node:stream').Readable; size: number }): Promise<void> {
    await callServer(this.#access, { method: 'PUT', target: link, body })
  }

  async start({ templateID, buildID }: BuildOf, build: StartBuild): Promise<void> {
    await this.#call({
      method: 'POST',
      target: `/v2/templates/${templateID}/builds/${buildID}`,
      body: { json: build },
    })
  }

  status({ templateID, buildID }: BuildOf, logsOffset: number): Promise<BuildStatusAnswer> {
    const target = `/templates/${templateID}/builds/${buildID}/status?logsOffset=${logsOffset}`
    return this.#call({ method: 'GET', target })
  }

  #call<T>(call: Call): Promise<T> {
    return callServer(this.#access, { ...call, headers: { [header.apiKey]: this.#access.apiKey } })
  }
}
