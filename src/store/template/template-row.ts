import type { Updateable } from 'kysely'
import type {
  BuildReason,
  BuildSnapshot,
  Template,
  TemplateBuild,
  TemplateName,
} from '../../core/template/template.ts'
import type { TemplateAliasRow, TemplateBuildRow, TemplateRow } from '../database/tables.ts'

export function templateRow(template: Template): TemplateRow {
  return {
    id: template.templateID,
    team_id: template.teamID,
    is_public: template.public ? 1 : 0,
    is_snapshot: template.isSnapshot ? 1 : 0,
    created_at: template.createdAt,
    updated_at: template.updatedAt,
    last_spawned_at: template.lastSpawnedAt,
    spawn_count: template.spawnCount,
  }
}

export function templateOf(row: TemplateRow): Template {
  return {
    templateID: row.id,
    teamID: row.team_id,
    public: row.is_public === 1,
    isSnapshot: row.is_snapshot === 1,
    createdAt: row.created_at,
    updatedAt: row.updated_at,
    lastSpawnedAt: row.last_spawned_at,
    spawnCount: row.spawn_count,
  }
}

/** Only the columns of the given changes; a build's ID and template never change. */
export function buildColumns(changes: Partial<TemplateBuild>): Updateable<TemplateBuildRow> {
  const columns = {
    status: changes.status,
    cpu_count: changes.cpuCount,
    memory_mb: changes.memoryMB,
    disk_mb: changes.diskMB,
    gpu_count: changes.gpuCount,
    envd_version: changes.envdVersion,
    root_folder: changes.rootFolder,
    layers: changes.layers && JSON.stringify(changes.layers),
    env_vars: changes.envVars && JSON.stringify(storedVariables(changes.envVars, changes.sandboxEnvVars)),
    default_user: changes.defaultUser,
    default_workdir: changes.defaultWorkdir,
    start_cmd: changes.startCmd,
    ready_cmd: changes.readyCmd,
    service_context: changes.serviceContext && JSON.stringify(changes.serviceContext),
    start_request: changes.startRequest && JSON.stringify(changes.startRequest),
    ...(changes.snapshot !== undefined && snapshotColumns(changes.snapshot)),
    created_at: changes.createdAt,
    updated_at: changes.updatedAt,
    finished_at: changes.finishedAt,
    ...(changes.reason !== undefined && reasonColumns(changes.reason)),
  }
  return Object.fromEntries(Object.entries(columns).filter(([, value]) => value !== undefined))
}

/** No variable has this name, because names cannot contain '='. */
const sandboxVariablesName = '=sandbox'

type Variables = Record<string, string>

function storedVariables(envVars: Variables, sandboxEnvVars: Variables = {}): Variables {
  if (Object.keys(sandboxEnvVars).length === 0) return envVars
  return { ...envVars, [sandboxVariablesName]: JSON.stringify(sandboxEnvVars) }
}

function variablesIn(text: string): Pick<TemplateBuild, 'envVars' | 'sandboxEnvVars'> {
  const { [sandboxVariablesName]: ofSandbox, ...envVars } = JSON.parse(text) as Variables
  return ofSandbox === undefined ? { envVars } : { envVars, sandboxEnvVars: JSON.parse(ofSandbox) }
}

function snapshotColumns(snapshot: BuildSnapshot | null) {
  if (snapshot === null) return { saved_name: null, saved_memory: null, source_sandbox_id: null }
  return {
    saved_name: snapshot.name,
    saved_memory: snapshot.memory ? 1 : 0,
    source_sandbox_id: snapshot.sandboxID,
  } as const
}

function snapshotOf(row: TemplateBuildRow): BuildSnapshot | null {
  if (row.saved_name === null || row.source_sandbox_id === null) return null
  return { name: row.saved_name, memory: row.saved_memory === 1, sandboxID: row.source_sandbox_id }
}

function reasonColumns(reason: BuildReason | null) {
  // A program may have written any of this text, and a failed build must be storable whatever it wrote.
  const message = reason?.message.replaceAll('\0', '\uFFFD')
  return { reason_message: message ?? null, reason_step: reason?.step ?? null }
}

function reasonOf(row: TemplateBuildRow): BuildReason | null {
  return row.reason_message === null ? null : { message: row.reason_message, step: row.reason_step }
}

export function buildRow(build: TemplateBuild): TemplateBuildRow {
  const columns = buildColumns(build) as Omit<TemplateBuildRow, 'id' | 'template_id'>
  return { ...columns, id: build.buildID, template_id: build.templateID }
}

export function buildOf(row: TemplateBuildRow): TemplateBuild {
  return {
    buildID: row.id,
    templateID: row.template_id,
    status: row.status,
    cpuCount: row.cpu_count,
    memoryMB: row.memory_mb,
    diskMB: row.disk_mb,
    ...(row.gpu_count > 0 && { gpuCount: row.gpu_count }),
    envdVersion: row.envd_version,
    rootFolder: row.root_folder,
    layers: row.layers === null ? null : JSON.parse(row.layers),
    ...variablesIn(row.env_vars),
    defaultUser: row.default_user,
    defaultWorkdir: row.default_workdir,
    startCmd: row.start_cmd,
    readyCmd: row.ready_cmd,
    serviceContext: row.service_context === null ? null : JSON.parse(row.service_context),
    startRequest: row.start_request === null ? null : JSON.parse(row.start_request),
    snapshot: snapshotOf(row),
    createdAt: row.created_at,
    updatedAt: row.updated_at,
    finishedAt: row.finished_at,
    reason: reasonOf(row),
  }
}

/** The rows must be in the order of their positions. */
export function namesOf(rows: readonly Pick<TemplateAliasRow, 'namespace' | 'alias'>[]): TemplateName[] {
  const bare = rows.filter(({ namespace }) => namespace === '')
  const own = rows.filter(({ namespace }) => namespace !== '')
  return [...bare, ...own].map(({ namespace, alias }) => ({ namespace: namespace || null, alias }))
}

/** The digests in these columns, each once. */
export function digestsIn(rows: readonly { layers: string }[]): string[] {
  return [...new Set(rows.flatMap(({ layers }) => JSON.parse(layers) as string[]))]
}
