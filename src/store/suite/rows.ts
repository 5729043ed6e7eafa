/** Test data for the store suite; each call changes only what its test is about. */
import type { PausedSandbox, RemoteBytes } from '../../core/object-storage/remote-bytes-store.ts'
import type {
  NewSandbox,
  Sandbox,
  SandboxOptions,
  SandboxSnapshot,
  SandboxState,
} from '../../core/sandbox/row/sandbox.ts'
import type { SandboxChanges } from '../../core/sandbox/row/sandbox-store.ts'
import { SecretVault } from '../../core/secret/vault.ts'
import { type ApiKey, defaultTeamLimits, fullGrant, type Team } from '../../core/team/team.ts'
import type { Template, TemplateBuild } from '../../core/template/template.ts'
import { newSandboxID, newTemplateID, newUUID } from '../../lib/ids.ts'
import { Turns } from '../../lib/turns.ts'
import type { Stores } from '../stores.ts'

export const vault = new SecretVault('5a'.repeat(32))

export const time = 1_700_000_000_000

export function aTeam(changes: Partial<Team> = {}): Team {
  const teamID = newUUID()
  return {
    teamID,
    slug: `team-${teamID}`,
    name: 'A team',
    limits: defaultTeamLimits,
    olderClients: false,
    createdAt: time,
    ...changes,
  }
}

export function aKey(
  teamID: string,
  changes: Partial<ApiKey & { hash: string }> = {},
): ApiKey & { hash: string } {
  const dates = { createdAt: time, lastUsedAt: null, revokedAt: null }
  const masks = { maskPrefix: 'ab', maskSuffix: 'cdef' }
  return {
    keyID: newUUID(),
    teamID,
    name: 'A key',
    hash: newUUID(),
    ...masks,
    ...dates,
    ...fullGrant,
    lastUsedFrom: null,
    ...changes,
  }
}

export function aTemplate(changes: Partial<Template> = {}): Template {
  return {
    templateID: newTemplateID(),
    teamID: null,
    public: true,
    isSnapshot: false,
    createdAt: time,
    updatedAt: time,
    lastSpawnedAt: null,
    spawnCount: 0,
    ...changes,
  }
}

/** A name that is given is not drawn, so that a seeded history draws the same names whatever its rows are made of. */
export function aBuild(templateID: string, changes: Partial<TemplateBuild> = {}): TemplateBuild {
  return {
    buildID: changes.buildID ?? newUUID(),
    templateID,
    status: 'ready',
    cpuCount: 2,
    memoryMB: 512,
    diskMB: 1024,
    envdVersion: '0.6.13',
    rootFolder: 'roots/base',
    layers: null,
    envVars: { LANG: 'C.UTF-8' },
    defaultUser: 'user',
    defaultWorkdir: '/home/user',
    startCmd: null,
    readyCmd: null,
    serviceContext: null,
    startRequest: null,
    snapshot: null,
    createdAt: time,
    updatedAt: time,
    finishedAt: time,
    reason: null,
    ...changes,
  }
}

/** The options of a create that asks for nothing. */
export const usualOptions: SandboxOptions = {
  allowInternetAccess: null,
  network: null,
  autoPause: false,
  autoPauseMemory: true,
  autoResume: false,
  secure: true,
}

export function aSandbox(teamID: string, changes: Partial<NewSandbox> = {}): NewSandbox {
  return {
    sandboxID: changes.sandboxID ?? newSandboxID(),
    teamID,
    templateID: 'base-template',
    buildID: changes.buildID ?? newUUID(),
    alias: 'base',
    runID: changes.runID ?? newUUID(),
    cpuCount: 2,
    memoryMB: 512,
    diskMB: 1024,
    envdVersion: '0.6.13',
    metadata: {},
    envVars: {},
    options: usualOptions,
    timeoutMs: 300_000,
    createdAt: time,
    startedAt: time,
    endAt: time + 300_000,
    ...changes,
  }
}

export async function insertTeam(stores: Stores, changes: Partial<Team> = {}): Promise<Team> {
  const team = aTeam(changes)
  await stores.teams.insertTeam(team)
  return team
}

export async function insertSandbox(
  stores: Stores,
  teamID: string,
  changes: Partial<NewSandbox> = {},
): Promise<NewSandbox> {
  const sandbox = aSandbox(teamID, changes)
  await haveTemplate(stores, sandbox.templateID)
  const result = await stores.sandboxes.insertWithinLimits(sandbox, defaultTeamLimits)
  if (!result.inserted) throw new Error(`the sandbox was not inserted: ${JSON.stringify(result)}`)
  return sandbox
}

/** Inserts the template of the rows from `aSandbox`. */
export async function haveTemplate(stores: Stores, templateID = 'base-template'): Promise<void> {
  if (await stores.templates.findByID(templateID)) return
  await insertTemplate(stores, { templateID })
}

const pathTo: Record<SandboxState, SandboxState[]> = {
  creating: [],
  running: ['running'],
  pausing: ['running', 'pausing'],
  paused: ['running', 'pausing', 'paused'],
  snapshotting: ['running', 'snapshotting'],
  resuming: ['running', 'pausing', 'paused', 'resuming'],
  killing: ['killing'],
  ended: ['killing', 'ended'],
}

/** Inserts a sandbox and brings it to a state by legal transitions. */
export async function insertSandboxIn(
  stores: Stores,
  teamID: string,
  state: SandboxState,
  changes: Partial<NewSandbox> = {},
  ending: SandboxChanges = { endedAt: time, endReason: 'killed' },
): Promise<Sandbox> {
  const { sandboxID, runID } = await insertSandbox(stores, teamID, changes)
  let from: SandboxState = 'creating'
  for (const to of pathTo[state]) {
    await stores.sandboxes.transition({ sandboxID, runID, from: [from] }, to, to === 'ended' ? ending : {})
    from = to
  }
  const sandbox = await stores.sandboxes.find(sandboxID)
  if (sandbox?.state !== state) throw new Error(`the sandbox is ${sandbox?.state}, not ${state}`)
  return sandbox
}

export function aSnapshot(changes: Partial<SandboxSnapshot> = {}): SandboxSnapshot {
  return { name: newUUID(), memory: true, frozen: false, agentUnresponsive: false, ...changes }
}

/** Inserts a paused sandbox with its snapshot. */
export async function insertPaused(
  stores: Stores,
  teamID: string,
  snapshot: SandboxSnapshot,
  changes: Partial<NewSandbox> = {},
): Promise<Sandbox> {
  const { sandboxID, runID } = await insertSandboxIn(stores, teamID, 'pausing', changes)
  const paused = await stores.sandboxes.transition({ sandboxID, runID, from: ['pausing'] }, 'paused', {
    snapshot,
  })
  if (!paused) throw new Error('the sandbox was not paused')
  return paused
}

/** Marks the sandbox and its build as stored, so that any node may take it over. */
export async function storePaused(
  stores: Stores,
  { sandboxID, runID, templateID, buildID }: Sandbox,
  stored: RemoteBytes,
): Promise<void> {
  const build = aBuild(templateID, { buildID, layers: ['sha256:a'] })
  if (!(await stores.templates.findBuild(buildID))) await stores.templates.insertBuild(build, [])
  await stores.remoteBytes.markBuild(buildID, stored)
  await stores.remoteBytes.markSandbox({ sandboxID, runID }, stored)
}

/** Takes a paused sandbox over, in its turn. `seen` replaces what the turn has read. */
export function claimPaused(
  { remoteBytes }: Stores,
  sandboxID: string,
  snapshotName: string,
  seen: Partial<PausedSandbox> = {},
): Promise<boolean> {
  const turns = new Turns((id) => remoteBytes.findPaused(id))
  return turns.acquire(
    sandboxID,
    async ({ row }) => row !== undefined && remoteBytes.claim({ ...row, ...seen }, snapshotName),
  )
}

export async function insertTemplate(stores: Stores, changes: Partial<Template> = {}): Promise<Template> {
  const template = aTemplate(changes)
  await stores.templates.insertTemplate(template, [])
  return template
}
