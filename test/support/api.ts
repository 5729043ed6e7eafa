/** The API over the domain's fixture, asked by inject: no socket, no real sandbox. */
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { createApi } from '../../src/api/app.ts'
import { SandboxTokens } from '../../src/core/sandbox/tokens.ts'
import { SecretService } from '../../src/core/secret/service.ts'
import { TeamService } from '../../src/core/team/service.ts'
import { BuildLog } from '../../src/core/template/build-log.ts'
import { type Builder, BuildFailure, type BuildJob } from '../../src/core/template/builder.ts'
import { Building } from '../../src/core/template/building.ts'
import { Pruning } from '../../src/core/template/pruning.ts'
import { TemplateService } from '../../src/core/template/service.ts'
import { StoredBuildFiles } from '../../src/images/phases/build-files.ts'
import { silentLog } from '../../src/lib/log.ts'
import { LogFiles } from '../../src/logs/log-files.ts'
import { vault } from '../../src/store/suite-rows.ts'
import { openFixture } from './domain.ts'

export const adminToken = 'admin-token'

export async function openApi(options: { domain?: string } = {}) {
  const fixture = await openFixture()
  const { stores, clock, service, team } = fixture
  const logFolder = mkdtempSync(join(tmpdir(), 'warren-api-'))
  const logs = new LogFiles({ folder: logFolder, maxBytesPerSandbox: 1e6, maxBytesTotal: 1e7 })
  const teams = new TeamService({ teams: stores.teams, keys: stores.keys, clock })
  const { key } = await teams.createKey(team.teamID, 'test')
  const jobs: BuildJob[] = []
  /** Builds what it is given at once; a step `RUN fail` fails. */
  const builder: Builder = {
    async run(job, log, _signal, settle) {
      jobs.push(job)
      for (const [index, { type, args }] of job.steps.entries()) {
        const step = String(index + 1)
        log({ level: 'info', message: `${type} ${args.join(' ')}`, step })
        if (args[0] === 'fail') throw new BuildFailure(step, "failed to run command 'fail': exit status 1")
      }
      const { startCmd, readyCmd } = job
      const context = { envVars: {}, defaultUser: 'user', defaultWorkdir: '/home/user' }
      await settle({ rootFolder: 'root', layers: null, snapshot: null, ...context, startCmd, readyCmd })
    },
  }
  const files = new StoredBuildFiles(join(logFolder, 'build-files'))
  const { sandboxes, templates, buildCache: cache } = stores
  const pruning = new Pruning({
    ...{ sandboxes, templates, cache, files, clock },
    ...{ snapshots: fixture.snapshots, driver: fixture.driver },
    images: { prune: async () => ({ count: 2, bytes: 3_000_000 }) },
  })
  const api = await createApi({
    sandboxes: service,
    metrics: stores.metrics,
    logs,
    catalog: fixture.catalog,
    removal: fixture.removal,
    templates: new TemplateService({ templates: stores.templates, catalog: fixture.catalog, clock }),
    building: new Building({
      ...{
        templates: stores.templates,
        catalog: fixture.catalog,
        clock,
        builder,
        envdVersion: '0',
        log: silentLog,
      },
      requireRoom: async () => {},
      buildLog: new BuildLog({ logs, maxBytes: 5e5, clock, log: silentLog }),
    }),
    pruning,
    buildFiles: files,
    uploads: { secret: 'seed', maxBytes: 1e6 },
    sizes: {
      cpu: { usual: 2, most: 8 },
      memoryMB: { usual: 1024, most: 8192 },
      diskMB: { usual: 1024, most: 2048 },
    },
    secrets: new SecretService({ secrets: stores.secrets, vault, clock }),
    clock,
    teams,
    tokens: new SandboxTokens('seed'),
    adminToken,
    domain: options.domain,
    version: '0',
    log: silentLog,
  })
  const ask = async (method: 'GET' | 'POST' | 'PUT' | 'PATCH' | 'DELETE', url: string, more: Ask = {}) => {
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
    ...{ fixture, api, key, teams, logs, ask, jobs },
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
