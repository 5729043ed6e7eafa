/** The API with a provider of OpenID Connect, and browsers that sign in with it. */
import assert from 'node:assert/strict'
import { loadConfig } from '../../src/app/config/config.ts'
import { openSignIn } from '../../src/app/ports/open-sign-in.ts'
import { silentLog } from '../../src/lib/log.ts'
import { vault } from '../../src/store/suite/rows.ts'
import { openApi } from './api.ts'
import { FakeProvider, fakeClient } from './fake-provider.ts'

export const ownOrigin = 'http://localhost:3000'

export type SigningIn = Awaited<ReturnType<typeof openSigningIn>>

type ApiOptions = Parameters<typeof openApi>[0]

export async function openSigningIn(settings: Record<string, string> = {}, options: ApiOptions = {}) {
  const provider = await FakeProvider.open()
  const config = loadConfig({
    WARREN_OIDC_ISSUER: provider.issuer,
    WARREN_OIDC_CLIENT_ID: fakeClient.id,
    WARREN_OIDC_CLIENT_SECRET: fakeClient.secret,
    WARREN_OIDC_GROUPS: 'developers=alpha:member;platform=operator',
    ...settings,
  })
  const openNode = (node: ApiOptions) =>
    openApi({
      ...node,
      signIn: ({ stores, clock }) => openSignIn(config, { stores, vault, clock, log: silentLog }),
    })
  const app = await openNode(options)
  return {
    app,
    provider,
    /** Another Warren on the same database, with the same settings. */
    openNeighbour: () => {
      const { folder: databaseFolder, clock } = app.fixture
      return openNode({ fixture: { databaseFolder, clock, nodeID: 'neighbour' } })
    },
    newBrowser: () => new FakeBrowser(app.api, provider),
    async [Symbol.asyncDispose]() {
      await app[Symbol.asyncDispose]()
      await provider[Symbol.asyncDispose]()
    },
  }
}

type Visit = {
  method?: 'GET' | 'POST' | 'PUT' | 'DELETE' | 'PATCH'
  headers?: Record<string, string>
  body?: unknown
}

/** Keeps cookies as a browser does, and sends what browsers send of themselves. */
export class FakeBrowser {
  readonly cookies = new Map<string, string>()
  /** The Warren that its next requests reach. */
  api: Awaited<ReturnType<typeof openApi>>['api']
  readonly #provider: FakeProvider

  constructor(api: Awaited<ReturnType<typeof openApi>>['api'], provider: FakeProvider) {
    this.api = api
    this.#provider = provider
  }

  /** A request of the address bar, or a redirect from elsewhere. */
  visit(url: string) {
    return this.ask(url, { headers: { 'sec-fetch-site': 'cross-site' } })
  }

  /** A request of the dashboard. */
  async ask(url: string, { method = 'GET', headers = {}, body }: Visit = {}) {
    const own = {
      host: new URL(ownOrigin).host,
      'sec-fetch-site': 'same-origin',
      ...(method !== 'GET' && { origin: ownOrigin }),
    }
    const cookie = [...this.cookies].map((pair) => pair.join('=')).join('; ')
    const answer = await this.api.inject({
      method,
      url,
      headers: { ...own, ...(cookie !== '' && { cookie }), 'user-agent': 'a browser', ...headers },
      ...(body !== undefined && { payload: body as object }),
    })
    for (const { name, value, maxAge } of answer.cookies) {
      if (maxAge === 0) this.cookies.delete(name)
      else this.cookies.set(name, value)
    }
    return answer
  }

  /** As far as the provider, and back to the path that the answer is. */
  async begin(returnTo = '/dashboard'): Promise<string> {
    const answer = await this.visit(`/sign-in?${new URLSearchParams({ return: returnTo })}`)
    assert.equal(answer.statusCode, 302, answer.body)
    return this.#provider.approve(String(answer.headers.location))
  }

  async signIn(returnTo?: string) {
    const answer = await this.visit(await this.begin(returnTo))
    assert.equal(answer.statusCode, 303, answer.body)
    return answer
  }

  get session(): string | undefined {
    return this.cookies.get('warren-session')
  }
}
