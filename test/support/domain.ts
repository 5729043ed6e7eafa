/** The sandbox domain over a real store, with a driver and an agent that are not real, and time turned by hand. */
import assert from 'node:assert/strict'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import type { AgentCommand, AgentPort, CommandEnd, CommandOutput } from '../../src/core/agent.ts'
import type { EgressGate, GateClient } from '../../src/core/egress.ts'
import type { LogEntry } from '../../src/core/logs.ts'
import { createAutoResume } from '../../src/core/sandbox/auto-resume.ts'
import { BuildSandboxes } from '../../src/core/sandbox/build-sandboxes.ts'
import type { CreateRequest } from '../../src/core/sandbox/creator.ts'
import { SandboxEgress } from '../../src/core/sandbox/egress.ts'
import { SandboxLauncher } from '../../src/core/sandbox/launcher.ts'
import { OngoingWork } from '../../src/core/sandbox/ongoing-work.ts'
import { Reconciler } from '../../src/core/sandbox/reconciler.ts'
import { RouteTable } from '../../src/core/sandbox/routes.ts'
import { SandboxService } from '../../src/core/sandbox/service.ts'
import { SnapshotStore } from '../../src/core/sandbox/snapshot-store.ts'
import { takeStartSnapshot } from '../../src/core/sandbox/start-snapshot.ts'
import { SandboxTokens } from '../../src/core/sandbox/tokens.ts'
import { WarmPool } from '../../src/core/sandbox/warm-pool.ts'
import type { SecretVault } from '../../src/core/secret/vault.ts'
import { defaultTeamLimits, type Team } from '../../src/core/team/team.ts'
import { TemplateCatalog } from '../../src/core/template/catalog.ts'
import { TemplateRemoval } from '../../src/core/template/removal.ts'
import type { TemplateBuild } from '../../src/core/template/template.ts'
import { FakeDriver, type FakeSandbox, type FakeWorld } from '../../src/drivers/fake/fake-driver.ts'
import { isAppError } from '../../src/lib/app-error.ts'
import { ManualClock } from '../../src/lib/clock.ts'
import { silentLog } from '../../src/lib/log.ts'
import { openStores } from '../../src/store/open-stores.ts'
import { vault } from '../../src/store/suite-rows.ts'

export const request = (changes: Partial<CreateRequest> = {}): CreateRequest => ({
  template: 'base',
  timeoutMs: 60_000,
  metadata: {},
  envVars: {},
  options: {
    allowInternetAccess: null,
    network: null,
    autoPause: false,
    autoPauseMemory: true,
    autoResume: false,
  },
  ...changes,
})

/** Knows who was admitted, by address. */
class FakeGate implements EgressGate {
  readonly clients = new Map<string, GateClient>()

  admit(address: string, client: GateClient): void {
    this.clients.set(address, client)
  }

  forget(address: string): void {
    this.clients.delete(address)
  }

  async close(): Promise<void> {}
}

type FakeAgent = AgentPort & {
  /** Ids that were handed over, and the token that each call showed. */
  initialized: string[]
  knownBy: (string | undefined)[]
  /** By their token: who was told of the gate's authority. */
  trusting: string[]
  fail: Error | undefined
  healthy: boolean
  /** Commands that were run, and how each ends. */
  ran: string[]
  commands: AgentCommand[]
  runs: (command: string, inside: Inside) => Promise<CommandEnd>
  /** Files that were written from outside. */
  written: { path: string; text: string }[]
}

/** Where a command runs. */
export type Inside = {
  sandbox: FakeSandbox
  command: AgentCommand
  say: (stream: CommandOutput['stream'], text: string) => void
}

export type Fixture = Awaited<ReturnType<typeof openFixture>>

/** `again` makes what a restarted process would have: the same store and machine, everything else new. */
export async function openFixture(
  options: {
    folder?: string
    world?: FakeWorld
    clock?: ManualClock
    warm?: number
    snapshotMemory?: boolean
    vault?: SecretVault
  } = {},
) {
  const folder = options.folder ?? mkdtempSync(join(tmpdir(), 'warren-core-'))
  const clock = options.clock ?? new ManualClock()
  const stores = await openStores({ url: undefined, dataFolder: folder, vault: options.vault ?? vault })
  const driver = new FakeDriver({
    ...(options.world && { world: options.world }),
    snapshotMemory: options.snapshotMemory ?? true,
  })
  await driver.prepare('/root')
  const agent: FakeAgent = {
    initialized: [],
    knownBy: [],
    trusting: [],
    fail: undefined,
    healthy: true,
    ran: [],
    runs: async () => ({ exitCode: 0, status: 'exit status 0' }),
    async initialize(_, identity, { currentToken }) {
      if (agent.fail) throw agent.fail
      if (identity.caBundle) return void agent.trusting.push(currentToken ?? '')
      agent.initialized.push(identity.envVars?.E2B_SANDBOX_ID ?? '')
      agent.knownBy.push(currentToken)
    },
    isHealthy: async () => agent.healthy,
    commands: [],
    written: [],
    async run({ host }, _token, command, { signal, onOutput }) {
      signal.throwIfAborted()
      agent.ran.push(command.command)
      agent.commands.push(command)
      const found = [...driver.world.sandboxes.values()].find(({ handle }) => handle.data.address === host)
      const say: Inside['say'] = (stream, text) => onOutput?.({ stream, data: Buffer.from(text) })
      const aborted = new Promise<never>((_, reject) => {
        signal.addEventListener('abort', () => reject(signal.reason), { once: true })
      })
      return Promise.race([agent.runs(command.command, { sandbox: found!, command, say }), aborted])
    },
    async writeFile(_agent, _token, path, body) {
      agent.written.push({ path, text: Buffer.concat(await body.toArray()).toString() })
    },
    async *followLogs() {},
  }
  const team = await ensureTeam(stores, clock)
  const routes = new RouteTable()
  const tokens = new SandboxTokens('seed')
  const warm = new WarmPool({ driver, size: options.warm ?? 0, clock, log: silentLog })
  const places = {
    folder: (name: string) => name,
    names: async () => [...driver.world.snapshots.keys()],
    roomOf: async (names: readonly string[]) => names.length,
  }
  const snapshots = new SnapshotStore({ driver, places })
  const roots = { folder: '/root' }
  const rootsOf = (): [string] => [roots.folder]
  const ongoing = new OngoingWork()
  const gate = new FakeGate()
  const lookup = async (name: string) => (name === 'inside.test' ? ['10.0.0.1'] : ['198.51.100.1'])
  const egress = new SandboxEgress({
    ...{ driver, gate, agent, tokens, lookup },
    isClosed: (address) => address.startsWith('10.'),
    authority: { certificate: async () => 'the authority' },
  })
  const launcher = new SandboxLauncher({
    ...{ driver, agent, routes, tokens, warm, snapshots, egress, clock, rootsOf },
  })
  const buildSandboxes = new BuildSandboxes({ driver, agent, tokens, launcher, snapshots, ongoing })
  const { sandboxes, templates } = stores
  const catalog = new TemplateCatalog(templates)
  const told: string[] = []
  const appendLog = (sandboxID: string, { message }: LogEntry) => void told.push(`${sandboxID} ${message}`)
  const parts = {
    ...{
      sandboxes,
      templates,
      catalog,
      driver,
      launcher,
      egress,
      warm,
      snapshots,
      ongoing,
      clock,
      appendLog,
      log: silentLog,
    },
  }
  const service = new SandboxService(parts)
  const reconciler = new Reconciler({
    ...{
      service,
      sandboxes,
      templates,
      cache: stores.buildCache,
      driver,
      launcher,
      snapshots,
      routes,
      warm,
      log: silentLog,
    },
  })
  const calledOff: string[] = []
  const removal = new TemplateRemoval({
    ...{ catalog, templates, sandboxes },
    sweep: () => reconciler.sweepSnapshots(),
    callOff: async (buildID: string) => void calledOff.push(buildID),
  })
  const findResumable = createAutoResume({ service, sandboxes, teams: stores.teams, routes, tokens })
  let crashed = false
  return {
    ...{ folder, clock, stores, driver, agent, team, routes, warm, service, reconciler, told },
    ...{ catalog, removal, calledOff, findResumable, snapshots, buildSandboxes, gate, roots },
    prepare: (build: TemplateBuild) =>
      takeStartSnapshot({ buildSandboxes, agent, snapshots }, build, {
        signal: new AbortController().signal,
      }),
    again: async (withVault = vault) => {
      crashed = true
      await stores.close()
      return openFixture({
        ...{ folder, world: driver.world, clock, vault: withVault },
        snapshotMemory: driver.capabilities.snapshotMemory,
      })
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
  const base = {
    templateID: 'basetemplate',
    teamID: null,
    public: true,
    isSnapshot: false,
    lastSpawnedAt: null,
    spawnCount: 0,
  }
  await stores.templates.insertTemplate({ ...base, ...times }, [{ alias: 'base', namespace: null }])
  await stores.templates.insertBuild(
    {
      ...{ buildID: '11111111-1111-4111-8111-111111111111', templateID: 'basetemplate', status: 'ready' },
      ...{ cpuCount: 2, memoryMB: 512, diskMB: 1024, envdVersion: '0.6.13', rootFolder: 'root' },
      ...{
        envVars: {},
        defaultUser: 'user',
        defaultWorkdir: '/home/user',
        startCmd: null,
        readyCmd: null,
        layers: null,
        reason: null,
        snapshot: null,
      },
      ...{ ...times, finishedAt: now },
    },
    ['default'],
  )
  return team
}

/** A second team, for what the first must not see. */
export async function addTeam(
  { stores, clock }: Pick<Fixture, 'stores' | 'clock'>,
  slug: string,
): Promise<Team> {
  const team = { teamID: `team-${slug}`, slug, name: slug, limits: defaultTeamLimits, createdAt: clock.now() }
  await stores.teams.insertTeam(team)
  return team
}

export const failsWith = (code: string) => (error: unknown) => isAppError(error) && error.code === code

/** Lets every promise that is ready run; expiry works behind a timer that nobody awaits. */
export async function until(check: () => Promise<boolean>): Promise<void> {
  for (let round = 0; round < 1000; round++) {
    if (await check()) return
    await new Promise((resolve) => setImmediate(resolve))
  }
  assert.fail('it never came to pass')
}

/** Holds somebody up until it is opened. */
export function gate() {
  let open = () => {}
  const opened = new Promise<void>((resolve) => {
    open = resolve
  })
  return { open, opened }
}
