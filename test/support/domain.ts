/** The sandbox domain over a real store, with a driver and an agent that are not real, and time turned by hand. */

import assert from 'node:assert/strict'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { joinDomain } from '../../src/app/domain/domain.ts'
import type { DomainPorts } from '../../src/app/domain/domain-ports.ts'
import { takeStartSnapshot } from '../../src/core/sandbox/builds/start-snapshot.ts'
import type { AdmissionSettings } from '../../src/core/sandbox/capacity/admission.ts'
import type { DiskLevels } from '../../src/core/sandbox/capacity/disk-levels.ts'
import { RouteTable } from '../../src/core/sandbox/network/routes.ts'
import type { QuarantineStore } from '../../src/core/sandbox/snapshots/quarantine-store.ts'
import type { CreateRequest } from '../../src/core/sandbox/verbs/creator.ts'
import type { SecretVault } from '../../src/core/secret/vault.ts'
import { defaultTeamLimits, type Team } from '../../src/core/team/team.ts'
import type { TemplateBuild } from '../../src/core/template/template.ts'
import type { TemplateStore } from '../../src/core/template/template-store.ts'
import type { LostVolumeStore } from '../../src/core/volume/lost-volume-store.ts'
import type { VolumeStore } from '../../src/core/volume/volume-store.ts'
import { noAgent } from '../../src/drivers/driver-fixture.ts'
import { ArrivingDriver } from '../../src/drivers/fake/arriving-driver.ts'
import { FakeDriver } from '../../src/drivers/fake/fake-driver.ts'
import type { FakeWorld } from '../../src/drivers/fake/fake-world.ts'
import { LocalBuildFiles } from '../../src/images/phases/build-files.ts'
import { isAppError } from '../../src/lib/app-error.ts'
import { delay, ManualClock } from '../../src/lib/clock.ts'
import { newUUID } from '../../src/lib/ids.ts'
import type { Log } from '../../src/lib/log.ts'
import { LogFiles } from '../../src/logs/log-files.ts'
import { soleNode } from '../../src/store/node/owners.ts'
import { openStores } from '../../src/store/open-stores.ts'
import { aBuild, usualOptions, vault } from '../../src/store/suite/rows.ts'
import { copyEmptyDatabase } from './empty-database.ts'
import { createFakeAgent } from './fake-agent.ts'
import { FakeGate } from './fake-gate.ts'
import { FakeVolumeDisks } from './fake-volumes.ts'
import { StoreFaults } from './store-faults.ts'

export const request = (changes: Partial<CreateRequest> = {}): CreateRequest => ({
  template: 'base',
  timeoutMs: 60_000,
  metadata: {},
  envVars: {},
  options: usualOptions,
  ...changes,
})

/** Everybody starts at once. */
export const generousAdmission: AdmissionSettings = {
  memoryOvercommit: 100,
  cpuOvercommit: 100,
  minFreeMemoryMB: 0,
  startsAtOnce: 1000,
  waitMs: 45_000,
}

export type Fixture = Awaited<ReturnType<typeof openFixture>>

export type Logged = { level: keyof Log; values: object; message: string }

function loggingTo(logged: Logged[]): Log {
  const at = (level: keyof Log) => (values: object, message: string) =>
    void logged.push({ level, values, message })
  return { debug: at('debug'), info: at('info'), warn: at('warn'), error: at('error') }
}

export type FixtureOptions = {
  folder?: string
  world?: FakeWorld
  clock?: ManualClock
  warm?: number
  warmMemoryMB?: number
  snapshotMemory?: boolean
  /** Sandboxes start from the object store before their memory is there. */
  arriving?: boolean
  vault?: SecretVault
  /** The address of a PostgreSQL database, in place of SQLite in the folder. */
  url?: string
  /** Commits wait for the disk, as in a server; otherwise nothing here takes time that is not turned by hand. */
  onDisk?: boolean
  /** Tells this Warren from others on the same database. */
  nodeID?: string
  /** Where that is, if not in the folder of this one. */
  databaseFolder?: string
  admission?: Partial<AdmissionSettings>
  /** Unset: nobody watches the disk. */
  diskLevels?: DiskLevels
  volumeDisks?: FakeVolumeDisks
  /** In place of the fixture's own. */
  ports?: Partial<DomainPorts>
}

/** `again` makes what a restarted process would have: the same store and machine, everything else new. */
export async function openFixture(options: FixtureOptions = {}) {
  const folder = options.folder ?? mkdtempSync(join(tmpdir(), 'warren-core-'))
  const clock = options.clock ?? new ManualClock()
  const nodeID = options.nodeID ?? soleNode
  const dataFolder = options.databaseFolder ?? folder
  if (options.url === undefined) await copyEmptyDatabase(dataFolder)
  const stores = await openStores({
    url: options.url,
    dataFolder,
    vault: options.vault ?? vault,
    nodeID,
    ...(!options.onDisk && { syncLog: async () => {} }),
  })
  const driver = new (options.arriving ? ArrivingDriver : FakeDriver)({
    ...(options.world && { world: options.world }),
    snapshotMemory: options.snapshotMemory ?? true,
  })
  await driver.prepare('/root')
  const agent = createFakeAgent(driver)
  const team = await ensureTeam(stores, clock, options.ports?.objectStorage !== undefined)
  const gate = new FakeGate()
  const volumeDisks = options.volumeDisks ?? new FakeVolumeDisks()
  const faults = new StoreFaults()
  /** The same for other stores. */
  const storeFaults = {
    volumes: new StoreFaults<VolumeStore>(),
    lostVolumes: new StoreFaults<LostVolumeStore>(),
    quarantine: new StoreFaults<QuarantineStore>(),
    templates: new StoreFaults<TemplateStore>(),
  }
  const logged: Logged[] = []
  const routes = new RouteTable()
  const roots = { folder: '/root' }
  const events: string[] = []
  const logs = new LogFiles({ folder: join(folder, 'logs'), maxBytesPerSandbox: 1e6, maxBytesTotal: 1e7 })
  const buildFiles = new LocalBuildFiles(join(folder, 'build-files'))
  const domain = joinDomain(
    {
      stores: {
        ...stores,
        sandboxes: faults.wrap(stores.sandboxes),
        volumes: storeFaults.volumes.wrap(stores.volumes),
        lostVolumes: storeFaults.lostVolumes.wrap(stores.lostVolumes),
        quarantine: storeFaults.quarantine.wrap(stores.quarantine),
        templates: storeFaults.templates.wrap(stores.templates),
      },
      driver,
      agent,
      gate,
      routes,
      logs,
      buildFiles,
      clock,
      log: loggingTo(logged),
      appendLog: (sandboxID, { message }) => void events.push(`${sandboxID} ${message}`),
      lookup: async (name) => (name === 'inside.test' ? ['10.0.0.1'] : ['198.51.100.1']),
      isClosed: (address) => address.startsWith('10.'),
      extraCA: undefined,
      recipes: [],
      authority: { certificate: async () => 'the authority' },
      snapshotFolders: {
        folder: (name) => name,
        names: async () => [...driver.world.snapshots.keys()],
        bytesOf: async (names) => names.length,
      },
      volumeDisks,
      agentProgram: noAgent,
      rootsOf: () => [roots.folder],
      images: {
        prune: async () => ({ count: 0, bytes: 0 }),
        missing: () => [],
        digestOf: async () => 'sha256:one',
      },
      createBuilder: () => ({ run: async () => assert.fail('this fixture builds nothing') }),
      freeBytes: async () => 1e12,
      machine: { cpuCount: 64, memoryMB: 1e6, availableMemoryMB: async () => 1e6 },
      ...options.ports,
    },
    {
      seed: 'seed',
      nodeID,
      quarantineMs: 7 * 24 * 3_600_000,
      warmPool: { min: options.warm ?? 0, memoryMB: options.warmMemoryMB },
      admission: { ...generousAdmission, ...options.admission },
      minFreeBytes: 1e9,
      ...(options.diskLevels && { diskLevels: options.diskLevels }),
      maxBuildLogBytes: 5e5,
      volumes: { perTeam: 3, sizeMB: 64 },
    },
  )
  const { service, warm, buildSandboxes, snapshots, reconciler } = domain
  reconciler.watchExits()
  let crashed = false
  return {
    ...domain,
    folder,
    nodeID,
    clock,
    stores,
    driver,
    agent,
    team,
    routes,
    events,
    gate,
    roots,
    logs,
    buildFiles,
    faults,
    storeFaults,
    logged,
    volumeDisks,
    prepare: (build: TemplateBuild) =>
      takeStartSnapshot({ buildSandboxes, agent, snapshots, clock }, build, {
        signal: new AbortController().signal,
      }),
    again: async (withVault = vault) => {
      crashed = true
      await stores.close()
      return openFixture({
        folder,
        world: driver.world,
        clock,
        vault: withVault,
        nodeID,
        volumeDisks,
        ...(options.ports && { ports: options.ports }),
        ...(options.diskLevels && { diskLevels: options.diskLevels }),
        ...(options.admission && { admission: options.admission }),
        snapshotMemory: driver.capabilities.snapshotMemory,
        ...(options.arriving && { arriving: true }),
      })
    },
    async [Symbol.asyncDispose]() {
      if (crashed) return
      // A build may wait for its next try to write its end. What it tells lies in the folder.
      await turning(clock, domain.builds.close())
      await service.close()
      await warm.close()
      await stores.close()
      await volumeDisks.close()
      rmSync(folder, { recursive: true, force: true })
    },
  }
}

type OpenedStores = Awaited<ReturnType<typeof openStores>>

async function ensureTeam(stores: OpenedStores, clock: ManualClock, isStored: boolean): Promise<Team> {
  const known = await stores.teams.findTeam('alpha')
  if (known) {
    // Each node has its own build of the base.
    const base = await stores.templates.findReadyBuild('basetemplate', 'default')
    if (!base) await insertBase(stores, clock.now(), newUUID(), isStored)
    return known
  }
  const now = clock.now()
  const team: Team = {
    teamID: 'team-alpha',
    slug: 'alpha',
    name: 'Alpha',
    limits: { ...defaultTeamLimits, maxSandboxes: 3 },
    olderClients: false,
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
  await insertBase(stores, now, '11111111-1111-4111-8111-111111111111', isStored)
  return team
}

/** `isStored`: the object store has it, so that its sandboxes can move. */
async function insertBase(
  { templates, remoteBytes }: OpenedStores,
  now: number,
  buildID: string,
  isStored: boolean,
): Promise<void> {
  await templates.insertBuild(
    aBuild('basetemplate', {
      buildID,
      rootFolder: 'root',
      envVars: {},
      createdAt: now,
      updatedAt: now,
      finishedAt: now,
    }),
    ['default'],
  )
  if (isStored) await remoteBytes.markBuild(buildID, { at: now, needs: null })
}

/** A second team, for what the first must not see. */
export async function addTeam(
  { stores, clock }: Pick<Fixture, 'stores' | 'clock'>,
  slug: string,
): Promise<Team> {
  const named = { teamID: `team-${slug}`, slug, name: slug }
  const team = { ...named, limits: defaultTeamLimits, olderClients: false, createdAt: clock.now() }
  await stores.teams.insertTeam(team)
  return team
}

export const failsWith = (code: string) => (error: unknown) => isAppError(error) && error.code === code

/** Lets every promise that is ready run; expiry works behind a timer that nobody awaits. */
export async function until(check: () => Promise<boolean>): Promise<void> {
  // Not so many turns of the event loop: what other threads do, such as reading files, may take many of them.
  const deadline = Date.now() + 20_000
  for (let round = 0; Date.now() < deadline; round++) {
    if (await check()) return
    await (round < 1000 ? new Promise((resolve) => setImmediate(resolve)) : delay(5))
  }
  assert.fail('it never came to pass')
}

/** Moves time on in small steps until the work has ended. */
export async function turning<T>(clock: ManualClock, work: Promise<T>): Promise<T> {
  const startedAt = performance.now()
  let hasEnded = false
  const end = () => {
    hasEnded = true
  }
  work.then(end, end)
  for (let round = 0; !hasEnded; round++) {
    assert.ok(performance.now() - startedAt < 60_000, 'it has not ended within a minute of real time')
    await new Promise((resolve) => setImmediate(resolve))
    if (round % 10 === 9) clock.advance(100)
  }
  return work
}

/** Holds somebody up until it is opened. */
export function gate() {
  let open = () => {}
  const opened = new Promise<void>((resolve) => {
    open = resolve
  })
  return { open, opened }
}
