/** Data that an older Warren left in a database must still be readable, on both engines. */
import assert from 'node:assert/strict'
import { type Kysely, sql } from 'kysely'
import type { Tables } from '../database/tables.ts'
import { migrate, migrationsWith } from '../migrate.ts'
import { adoptRows, soleNode } from '../node/owners.ts'
import { storesOver } from '../open-stores.ts'
import type { Stores } from '../stores.ts'
import { aBuild, aSandbox, aTeam, aTemplate, vault } from './rows.ts'
import { hidden, liesSealed, networkWithSecrets } from './sealing.ts'

const team = aTeam()
const template = aTemplate({ teamID: team.teamID })
const build = aBuild(template.templateID)
const sandbox = aSandbox(team.teamID, {
  templateID: template.templateID,
  buildID: build.buildID,
  options: { ...aSandbox(team.teamID).options, network: networkWithSecrets },
})

/**
 * Migrates an empty database from the tables without snapshots to those of this build, where nothing lies
 * open.
 */
export async function upgradeWithoutSnapshots(db: Kysely<Tables>): Promise<void> {
  const known = Object.entries(migrationsWith(vault)).filter(([name]) => name < '0003')
  await migrate(db, Object.fromEntries(known))
  await insertOldRows(db)
  await migrate(db, migrationsWith(vault))
  await adoptRows(db, soleNode)

  const stores = storesOver(db, vault)
  assert.deepEqual(await stores.templates.findByID(template.templateID), template)
  assert.deepEqual(await stores.templates.findReadyBuild(template.templateID, 'default'), build)
  const none = {
    transitionID: null,
    handle: null,
    snapshot: null,
    endedAt: null,
    endReason: null,
    runUntil: null,
    version: 0,
  }
  const paused = { ...sandbox, state: 'paused', ...none }
  assert.deepEqual(await stores.sandboxes.find(sandbox.sandboxID), paused)
  await liesSealed(db, sandbox.sandboxID)
  await keyIsFull(stores)
  const limits = { ...team.limits, maxMemoryMB: sandbox.memoryMB }
  const created = await stores.sandboxes.insertWithinLimits(
    aSandbox(team.teamID, { templateID: template.templateID }),
    limits,
  )
  assert.deepEqual(created, { inserted: true }, 'a sandbox paused before the upgrade holds memory')
}

async function keyIsFull({ keys }: Stores): Promise<void> {
  const found = await keys.findByHash('hash of before')
  assert.deepEqual([found?.key.role, found?.key.personID, found?.key.expiresAt], ['owner', null, null])
}

async function insertOldRows(db: Kysely<Tables>): Promise<void> {
  const { limits } = team
  await insertInto(db, 'teams', {
    id: team.teamID,
    slug: team.slug,
    name: team.name,
    max_sandboxes: limits.maxSandboxes,
    max_cpu: limits.maxCPU,
    max_memory_mb: limits.maxMemoryMB,
    max_lifetime_hours: limits.maxLifetimeHours,
    created_at: team.createdAt,
  })
  const { createdAt } = sandbox
  await insertInto(db, 'api_keys', {
    id: 'key-of-before',
    team_id: team.teamID,
    hash: 'hash of before',
    name: 'ci',
    mask_prefix: 'ab',
    mask_suffix: 'cdef',
    created_at: createdAt,
  })
  await insertInto(db, 'templates', {
    id: template.templateID,
    team_id: team.teamID,
    is_public: 1,
    created_at: createdAt,
    updated_at: createdAt,
    spawn_count: 0,
  })
  await insertInto(db, 'template_builds', {
    id: build.buildID,
    template_id: template.templateID,
    status: 'ready',
    cpu_count: build.cpuCount,
    memory_mb: build.memoryMB,
    disk_mb: build.diskMB,
    envd_version: build.envdVersion,
    root_folder: build.rootFolder,
    env_vars: JSON.stringify(build.envVars),
    default_user: build.defaultUser,
    default_workdir: build.defaultWorkdir,
    created_at: createdAt,
    updated_at: createdAt,
    finished_at: build.finishedAt,
  })
  await insertInto(db, 'template_tags', {
    template_id: template.templateID,
    sequence: 1,
    tag: 'default',
    build_id: build.buildID,
    assigned_at: createdAt,
  })
  const { autoPauseMemory: _, ...options } = sandbox.options
  await insertInto(db, 'sandboxes', {
    id: sandbox.sandboxID,
    team_id: team.teamID,
    template_id: template.templateID,
    build_id: build.buildID,
    alias: sandbox.alias,
    state: 'paused',
    run_id: sandbox.runID,
    cpu_count: sandbox.cpuCount,
    memory_mb: sandbox.memoryMB,
    disk_mb: sandbox.diskMB,
    envd_version: sandbox.envdVersion,
    metadata: '{}',
    env_vars: '{}',
    options: JSON.stringify({ ...options, mcp: { server: { token: `${hidden} `.repeat(2000) } } }),
    timeout_ms: sandbox.timeoutMs,
    created_at: createdAt,
    started_at: sandbox.startedAt,
    end_at: sandbox.endAt,
  })
}

/** Bypasses the types, which know only the tables of this build. */
async function insertInto(db: Kysely<Tables>, table: string, row: Record<string, unknown>): Promise<void> {
  const columns = sql.join(Object.keys(row).map((name) => sql.ref(name)))
  await sql`insert into ${sql.table(table)} (${columns}) values (${sql.join(Object.values(row))})`.execute(db)
}
