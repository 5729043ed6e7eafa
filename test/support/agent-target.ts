/** The agent of a sandbox as strangers, clumsy clients and users inside meet it. */
import http from 'node:http'
import { after, before, describe } from 'node:test'
import { Sandbox } from 'e2b'
import type { Warren } from './warren.ts'

type Answer = { status: number; text: string }

/** Chapters about two sandboxes of one Warren. */
export function attackAgents(
  title: string,
  open: () => Promise<Warren>,
  chapters: (mine: () => Target, theirs: () => Target) => void,
): void {
  describe(title, () => {
    let warren: Warren
    let mine: Target
    let theirs: Target
    before(async () => {
      warren = await open()
      mine = await Target.create(warren)
      theirs = await Target.create(warren)
    })
    after(async () => {
      await mine?.sandbox.kill()
      await theirs?.sandbox.kill()
      await warren?.stop()
    })
    chapters(
      () => mine,
      () => theirs,
    )
  })
}

/** A sandbox, and its agent as anybody who can reach the edge sees it. */
export class Target {
  readonly sandbox: Sandbox
  readonly token: string
  readonly #url: URL

  static async create(warren: Warren): Promise<Target> {
    return new Target(await Sandbox.create('base', { ...warren.client, timeoutMs: 3_600_000 }), warren.url)
  }

  constructor(sandbox: Sandbox, url: string) {
    this.sandbox = sandbox
    this.token = (sandbox as unknown as { envdAccessToken: string }).envdAccessToken
    this.#url = new URL(url)
  }

  ask(
    method: string,
    path: string,
    headers: Record<string, string> = {},
    body?: string | Buffer,
  ): Promise<Answer> {
    const routing = { 'e2b-sandbox-id': this.sandbox.sandboxId, 'e2b-sandbox-port': '49983' }
    return new Promise((resolve, reject) => {
      const { hostname, port } = this.#url
      const options = { hostname, port, method, path, headers: { ...routing, ...headers }, agent: false }
      const outgoing = http.request(options, (response) => {
        let text = ''
        response.setEncoding('utf8').on('data', (chunk) => (text += chunk))
        response.on('end', () => resolve({ status: response.statusCode!, text }))
        response.on('error', reject)
      })
      outgoing.setTimeout(300_000, () => outgoing.destroy(new Error(`no answer to ${method} ${path}`)))
      outgoing.on('error', reject).end(body)
    })
  }

  call(method: string, message: unknown): Promise<Answer> {
    const headers = { 'x-access-token': this.token, 'content-type': 'application/json' }
    return this.ask('POST', `/filesystem.Filesystem/${method}`, headers, JSON.stringify(message))
  }

  read(path: string): Promise<Answer> {
    return this.ask('GET', filesPath(path), { 'x-access-token': this.token })
  }

  write(path: string, body: string | Buffer, user = 'user'): Promise<Answer> {
    const headers = { 'x-access-token': this.token, 'content-type': 'application/octet-stream' }
    return this.ask('POST', filesPath(path, { username: user }), headers, body)
  }

  /** For as long as it takes: under attack, or on a busy machine, that may be minutes. */
  async shell(command: string, user: 'user' | 'root' = 'user'): Promise<string> {
    return (await this.sandbox.commands.run(command, { user, timeoutMs: 0 })).stdout.trim()
  }
}

export function filesPath(path: string, more: Record<string, string> = {}): string {
  return `/files?${new URLSearchParams({ path, ...more })}`
}
