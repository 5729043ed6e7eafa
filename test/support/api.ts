/** The API over the domain's fixture, asked by inject: no socket, no real sandbox. */
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { createApi } from '../../src/api/app.ts'
import { SandboxTokens } from '../../src/core/sandbox/tokens.ts'
import { TeamService } from '../../src/core/team/service.ts'
import { silentLog } from '../../src/lib/log.ts'
import { LogFiles } from '../../src/logs/log-files.ts'
import { openFixture } from './domain.ts'

export const adminToken = 'admin-token'

export async function openApi(options: { domain?: string } = {}) {
  const fixture = await openFixture()
  const { stores, clock, service, team } = fixture
  const logFolder = mkdtempSync(join(tmpdir(), 'warren-api-'))
  const logs = new LogFiles({ folder: logFolder, maxBytesPerSandbox: 1e6, maxBytesTotal: 1e7 })
  const teams = new TeamService({ teams: stores.teams, keys: stores.keys, clock })
  const { key } = await teams.createKey(team.teamID, 'test')
  const api = await createApi({
    sandboxes: service,
    metrics: stores.metrics,
    logs,
    catalog: fixture.catalog,
    removal: fixture.removal,
    teams,
    tokens: new SandboxTokens('seed'),
    adminToken,
    domain: options.domain,
    version: '0',
    log: silentLog,
  })
  const ask = async (method: 'GET' | 'POST' | 'PATCH' | 'DELETE', url: string, more: Ask = {}) => {
    const headers = { host: '127.0.0.1:3000', 'x-api-key': key, ...more.headers }
    const payload = more.body === undefined ? {} : { payload: JSON.stringify(more.body) }
    const answer = await api.inject({ method, url, headers, ...payload })
    return {
      status: answer.statusCode,
      headers: answer.headers,
      body: answer.body,
      json: () => answer.json(),
    }
  }
  return {
    ...{ fixture, api, key, teams, logs, ask },
    asAdmin: { headers: { 'x-admin-token': adminToken, 'x-api-key': '' } },
    create: async (body: object = {}): Promise<string> =>
      (await ask('POST', '/v2/sandboxes', { body: { templateID: 'base', ...body } })).json().sandboxID,
    async [Symbol.asyncDispose]() {
      await api.close()
      await fixture[Symbol.asyncDispose]()
      rmSync(logFolder, { recursive: true, force: true })
    },
  }
}

type Ask = { body?: unknown; headers?: Record<string, string> }
