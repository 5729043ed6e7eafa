/** The API over the domain's fixture, asked by inject: no socket, no real sandbox. */
import assert from 'node:assert/strict'
import { brotliCompressSync, gzipSync } from 'node:zlib'
import { createApi } from '../../src/api/app.ts'
import type { ApiParts } from '../../src/api/context.ts'
import type { Dashboard, WeakerIsolation } from '../../src/api/routes/dashboard/dashboard.ts'
import { createSharesReport } from '../../src/app/reports/shares-report.ts'
import type { MachineReport } from '../../src/contract/rest/machine.ts'
import type { LoneNode } from '../../src/core/cluster/lone-node.ts'
import { NodeDirectory } from '../../src/core/cluster/node-directory.ts'
import { SecretService } from '../../src/core/secret/service.ts'
import { type Builder, BuildFailure, type BuildJob } from '../../src/core/template/builder.ts'
import { WebhookService } from '../../src/core/webhook/service.ts'
import { silentLog } from '../../src/lib/log.ts'
import { aNode } from '../../src/store/suite/nodes.ts'
import { vault } from '../../src/store/suite/rows.ts'
import { type Fixture, type FixtureOptions, openFixture } from './domain.ts'

export const adminToken = 'admin-token'

type OpenApiOptions = {
  domain?: string
  requestsPerMinute?: number
  allowInsecureSandboxes?: boolean
  allowOlderClients?: boolean
  trustedProxies?: string[]
  weakerIsolation?: WeakerIsolation | undefined
  answerMcp?: ApiParts['answerMcp']
  fixture?: FixtureOptions
  cluster?: ApiParts['cluster'] | ((fixture: Fixture) => Promise<ApiParts['cluster']>)
  loneNode?: (fixture: Fixture) => LoneNode
  signIn?: (fixture: Fixture) => ApiParts['signIn']
} & Partial<Pick<ApiParts, 'openDashboard' | 'answerDocs' | 'health' | 'onAnswered' | 'log'>>

const machine: MachineReport = {
  version: '0',
  startedAt: '2026-01-01T00:00:00.000Z',
  isolation: 'container',
  isolationLabel: 'containers',
  problems: [],
  sandboxes: { running: 1 },
  warmPool: { ready: 1, booting: 0 },
  creates: { perSecond: 0, succeeded: 0, failed: 0, p50Ms: null, p99Ms: null },
}

/** Two files stand for all. */
const dashboard: Dashboard = {
  entry: { script: 'main-1.js', style: 'main-1.css', icon: 'icon-1.svg', preloads: [] },
  files: new Map([['main-1.js', { gzip: gzipSync('run()'), br: brotliCompressSync('run()') }]]),
}

export async function openApi(options: OpenApiOptions = {}) {
  const jobs: BuildJob[] = []
  const fixture = await openFixture({
    ...options.fixture,
    ports: {
      createBuilder: () => builderAtOnce(jobs),
      images: {
        prune: async () => ({ count: 2, bytes: 3_000_000 }),
        missing: () => [],
        digestOf: async () => 'sha256:one',
      },
      ...options.fixture?.ports,
    },
  })
  const { stores, clock, team, teams, logs, buildFiles } = fixture
  const { key } = await teams.createKey(team.teamID, 'test')
  const api = await createApi({
    ...fixture,
    sandboxes: fixture.service,
    metrics: stores.metrics,
    logs,
    buildFiles,
    uploads: { secret: 'seed', maxBytes: 1e6 },
    sizes: {
      cpu: { usual: 2, max: 8 },
      memoryMB: { usual: 1024, max: 8192 },
      diskMB: { usual: 1024, max: 2048 },
    },
    secrets: new SecretService({ secrets: stores.secrets, vault, clock }),
    events: stores.events,
    webhooks: new WebhookService({
      ...stores,
      vault,
      clock,
      isClosed: (address) => address.startsWith('10.'),
    }),
    people: stores.people,
    signIn: options.signIn?.(fixture),
    nodes: new NodeDirectory({
      ...stores,
      listLostVolumes: async () => [],
      readSelf: async () => ({ ...aNode('node'), status: 'ready', statusChangedAt: 0, silentMs: 0 }),
      clock,
    }),
    cluster: typeof options.cluster === 'function' ? await options.cluster(fixture) : options.cluster,
    loneNode: options.loneNode?.(fixture),
    adminToken,
    auditLines: stores.audit,
    trustedProxies: options.trustedProxies ?? [],
    requestsPerMinute: options.requestsPerMinute ?? 0,
    allowInsecureSandboxes: options.allowInsecureSandboxes ?? false,
    allowOlderClients: options.allowOlderClients ?? false,
    domain: options.domain,
    port: 3000,
    version: '0',
    openDashboard: options.openDashboard ?? (async () => dashboard),
    weakerIsolation: options.weakerIsolation,
    describeMachine: async () => machine,
    describeShares: createSharesReport({
      nodeID: options.fixture?.nodeID ?? 'node',
      shares: fixture.machineShares,
    }),
    examineMachine: async () => ({ examinedAt: machine.startedAt, canRun: true, checks: [] }),
    answerMcp: options.answerMcp ?? (async () => assert.fail('nobody answers MCP here')),
    answerDocs: options.answerDocs ?? (async () => assert.fail('nobody reads here')),
    renderMetrics: async () => ({ contentType: 'text/plain', text: 'warren_info 1\n' }),
    health: options.health ?? { whyNotServing: () => undefined, databaseProblem: async () => undefined },
    onAnswered: options.onAnswered ?? (() => {}),
    log: options.log ?? silentLog,
  })
  const ask = async (
    method: 'GET' | 'POST' | 'PUT' | 'PATCH' | 'DELETE' | 'OPTIONS',
    url: string,
    more: Ask = {},
  ) => {
    const given = { host: '127.0.0.1:3000', 'x-api-key': key, ...more.headers }
    const headers = Object.fromEntries(Object.entries(given).filter(([, value]) => value !== undefined))
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
    fixture,
    api,
    key,
    teams,
    logs,
    ask,
    jobs,
    asAdmin: { headers: { 'x-admin-token': adminToken, 'x-api-key': '' } },
    create: async (body: object = {}): Promise<string> =>
      (await ask('POST', '/v2/sandboxes', { body: { templateID: 'base', ...body } })).json().sandboxID,
    async [Symbol.asyncDispose]() {
      await api.close()
      await fixture[Symbol.asyncDispose]()
    },
  }
}

/** Builds what it is given at once; a step `RUN fail` fails. */
const builderAtOnce = (jobs: BuildJob[]): Builder => ({
  async run(job, log, _signal, onResult) {
    jobs.push(job)
    for (const [index, { type, args }] of job.steps.entries()) {
      const step = String(index + 1)
      log({ level: 'info', message: `${type} ${args.join(' ')}`, step })
      if (args[0] === 'fail') throw new BuildFailure(step, "failed to run command 'fail': exit status 1")
    }
    const service = { startCmd: job.startCmd, readyCmd: job.readyCmd, serviceContext: null }
    const context = { envVars: {}, defaultUser: 'user', defaultWorkdir: '/home/user', ...service }
    await onResult({ rootFolder: 'root', layers: null, snapshot: null, ...context })
  },
})

/** A header that is undefined is not sent. */
type Ask = { body?: unknown; headers?: Record<string, string | undefined> }
