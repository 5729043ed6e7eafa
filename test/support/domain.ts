/** The sandbox domain over a real store, with a driver and an agent that are not real, and time turned by hand. */
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import type { AgentPort } from '../../src/core/agent.ts'
import type { LogEntry } from '../../src/core/logs.ts'
import { SandboxLauncher } from '../../src/core/sandbox/launcher.ts'
import { Reconciler } from '../../src/core/sandbox/reconciler.ts'
import { RouteTable } from '../../src/core/sandbox/routes.ts'
import { type CreateRequest, SandboxService } from '../../src/core/sandbox/service.ts'
import { SandboxTokens } from '../../src/core/sandbox/tokens.ts'
import { WarmPool } from '../../src/core/sandbox/warm-pool.ts'
import { defaultTeamLimits, type Team } from '../../src/core/team/team.ts'
import { TemplateCatalog } from '../../src/core/template/catalog.ts'
import { FakeDriver, type FakeWorld } from '../../src/drivers/fake/fake-driver.ts'
import { ManualClock } from '../../src/lib/clock.ts'
import { silentLog } from '../../src/lib/log.ts'
import { openStores } from '../../src/store/open-stores.ts'

export const request = (changes: Partial<CreateRequest> = {}): CreateRequest => ({
  template: 'base',
  timeoutMs: 60_000,
  metadata: {},
  envVars: {},
  options: { allowInternetAccess: null, network: null, mcp: null, autoPause: false, autoResume: false },
  ...changes,
})

export type Fixture = Awaited<ReturnType<typeof openFixture>>

/** `again` makes what a restarted process would have: the same store and machine, everything else new. */
export async function openFixture(
  options: { folder?: string; world?: FakeWorld; clock?: ManualClock; warm?: number } = {},
) {
  const folder = options.folder ?? mkdtempSync(join(tmpdir(), 'warren-core-'))
  const clock = options.clock ?? new ManualClock()
  const stores = await openStores({ url: undefined, dataFolder: folder })
  const driver = new FakeDriver(options.world ? { world: options.world } : {})
  await driver.prepare('/root')
  const agent: AgentPort & { initialized: string[]; fail: Error | undefined } = {
    initialized: [],
    fail: undefined,
    async initialize(_, identity) {
      if (agent.fail) throw agent.fail
      agent.initialized.push(identity.envVars.E2B_SANDBOX_ID ?? '')
    },
    isHealthy: async () => true,
    async *followLogs() {},
  }
  const team = await ensureTeam(stores, clock)
  const routes = new RouteTable()
  const tokens = new SandboxTokens('seed')
  const warm = new WarmPool({ driver, size: options.warm ?? 0, clock, log: silentLog })
  const launcher = new SandboxLauncher({ driver, agent, routes, tokens, warm, rootFolderOf: () => '/root' })
  const { sandboxes, templates } = stores
  const catalog = new TemplateCatalog(templates)
  const told: string[] = []
  const tell = (sandboxID: string, { message }: LogEntry) => void told.push(`${sandboxID} ${message}`)
  const parts = { sandboxes, templates, catalog, launcher, warm, clock, tell, log: silentLog }
  const service = new SandboxService(parts)
  const reconciler = new Reconciler({ service, sandboxes, driver, launcher, routes, warm, log: silentLog })
  let crashed = false
  return {
    ...{ folder, clock, stores, driver, agent, team, routes, warm, service, reconciler, told },
    again: async () => {
      crashed = true
      await stores.close()
      return openFixture({ folder, world: driver.world, clock })
    },
    async [Symbol.asyncDispose]() {
      if (crashed) return
      await service.close()
      await warm.close()
      await stores.close()
      rmSync(folder, { recursive: true, force: true })
    },
  }
}

async function ensureTeam(stores: Awaited<ReturnType<typeof openStores>>, clock: ManualClock): Promise<Team> {
  const known = await stores.teams.findTeam('alpha')
  if (known) return known
  const now = clock.now()
  const team: Team = {
    teamID: 'team-alpha',
    slug: 'alpha',
    name: 'Alpha',
    limits: { ...defaultTeamLimits, maxSandboxes: 3 },
    createdAt: now,
  }
  await stores.teams.insertTeam(team)
  const times = { createdAt: now, updatedAt: now }
  const base = { templateID: 'basetemplate', teamID: null, public: true, lastSpawnedAt: null, spawnCount: 0 }
  await stores.templates.insertTemplate({ ...base, ...times }, [{ alias: 'base', namespace: null }])
  await stores.templates.insertBuild(
    {
      ...{ buildID: '11111111-1111-4111-8111-111111111111', templateID: 'basetemplate', status: 'ready' },
      ...{ cpuCount: 2, memoryMB: 512, diskMB: 1024, envdVersion: '0.6.13', rootFolder: 'root' },
      ...{ envVars: {}, defaultUser: 'user', defaultWorkdir: '/home/user', startCmd: null, readyCmd: null },
      ...{ ...times, finishedAt: now },
    },
    ['default'],
  )
  return team
}
