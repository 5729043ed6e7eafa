import type { Kysely, Updateable } from 'kysely'
import type { TemplateStore } from '../core/stores.ts'
import type { Template, TemplateBuild } from '../core/template/template.ts'
import { AppError, isAppError } from '../lib/app-error.ts'
import type { Tables, TemplateBuildRow, TemplateRow } from './tables.ts'

const uuidForm = /^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$/

export class SqlTemplateStore implements TemplateStore {
  readonly #db: Kysely<Tables>

  constructor(db: Kysely<Tables>) {
    this.#db = db
  }

  async insertTemplate(
    template: Template,
    names: { alias: string; namespace: string | null }[],
  ): Promise<void> {
    await this.#db.transaction().execute(async (transaction) => {
      await transaction.insertInto('templates').values(templateRow(template)).execute()
      for (const [position, { namespace, alias }] of names.entries()) {
        const row = { namespace: namespace ?? '', alias, template_id: template.templateID, position }
        await transaction
          .insertInto('template_aliases')
          .values(row)
          .execute()
          .catch((cause) => {
            if (!isAppError(cause, 'already_exists')) throw cause
            const name = namespace === null ? alias : `${namespace}/${alias}`
            const message = `A template with the name '${name}' exists already; choose another name`
            throw new AppError('already_exists', message, { cause })
          })
      }
    })
  }

  async insertBuild(build: TemplateBuild, tags: string[]): Promise<void> {
    const { templateID } = build
    await this.#db.transaction().execute(async (transaction) => {
      // Holds the template's row until the commit, so that sequence numbers are given out one by one.
      const touched = await transaction
        .updateTable('templates')
        .set({ updated_at: build.createdAt })
        .where('id', '=', templateID)
        .executeTakeFirstOrThrow()
      if (touched.numUpdatedRows === 0n) {
        throw new AppError('not_found', `There is no template '${templateID}'; create it before its builds`)
      }
      await transaction.insertInto('template_builds').values(buildRow(build)).execute()
      if (tags.length === 0) return
      const { last } = await transaction
        .selectFrom('template_tags')
        .select((select) => select.fn.max('sequence').as('last'))
        .where('template_id', '=', templateID)
        .executeTakeFirstOrThrow()
      const assignments = tags.map((tag, index) => ({
        template_id: templateID,
        sequence: (last ?? 0) + 1 + index,
        tag,
        build_id: build.buildID,
        assigned_at: build.createdAt,
      }))
      await transaction.insertInto('template_tags').values(assignments).execute()
    })
  }

  async updateBuild(buildID: string, changes: Partial<TemplateBuild>): Promise<void> {
    const columns = buildColumns(changes)
    if (Object.keys(columns).length === 0) return
    const updated = await this.#db
      .updateTable('template_builds')
      .set(columns)
      .where('id', '=', buildID)
      .executeTakeFirstOrThrow()
    if (updated.numUpdatedRows === 0n) {
      throw new AppError('not_found', `There is no build '${buildID}'; it may have been deleted`)
    }
  }

  async findByAlias(namespace: string | null, alias: string): Promise<Template | undefined> {
    const row = await this.#db
      .selectFrom('template_aliases')
      .innerJoin('templates', 'templates.id', 'template_aliases.template_id')
      .selectAll('templates')
      .where('namespace', '=', namespace ?? '')
      .where('alias', '=', alias)
      .executeTakeFirst()
    return row && templateOf(row)
  }

  async findByID(templateID: string): Promise<Template | undefined> {
    const row = await this.#db
      .selectFrom('templates')
      .selectAll()
      .where('id', '=', templateID)
      .executeTakeFirst()
    return row && templateOf(row)
  }

  async aliasesOf(templateID: string): Promise<string[]> {
    const rows = await this.#db
      .selectFrom('template_aliases')
      .select('alias')
      .where('template_id', '=', templateID)
      // The namespace-less names have the empty namespace, which sorts first.
      .orderBy('namespace')
      .orderBy('position')
      .execute()
    return rows.map(({ alias }) => alias)
  }

  async findReadyBuild(templateID: string, tagOrBuildID: string): Promise<TemplateBuild | undefined> {
    const ready = this.#db
      .selectFrom('template_builds')
      .selectAll('template_builds')
      .where('template_builds.template_id', '=', templateID)
      .where('status', '=', 'ready')
    const row = uuidForm.test(tagOrBuildID)
      ? await ready.where('id', '=', tagOrBuildID).executeTakeFirst()
      : await ready
          .innerJoin('template_tags', 'template_tags.build_id', 'template_builds.id')
          .where('tag', '=', tagOrBuildID)
          .orderBy('sequence', 'desc')
          .limit(1)
          .executeTakeFirst()
    return row && buildOf(row)
  }

  async recordSpawn(templateID: string, at: number): Promise<void> {
    await this.#db
      .updateTable('templates')
      .set((set) => ({ spawn_count: set('spawn_count', '+', 1), last_spawned_at: at }))
      .where('id', '=', templateID)
      .execute()
  }
}

function templateRow(template: Template): TemplateRow {
  return {
    id: template.templateID,
    team_id: template.teamID,
    is_public: template.public ? 1 : 0,
    created_at: template.createdAt,
    updated_at: template.updatedAt,
    last_spawned_at: template.lastSpawnedAt,
    spawn_count: template.spawnCount,
  }
}

function templateOf(row: TemplateRow): Template {
  return {
    templateID: row.id,
    teamID: row.team_id,
    public: row.is_public === 1,
    createdAt: row.created_at,
    updatedAt: row.updated_at,
    lastSpawnedAt: row.last_spawned_at,
    spawnCount: row.spawn_count,
  }
}

/** Only the columns of the changes that are there; which build it is, and of which template, never changes. */
function buildColumns(changes: Partial<TemplateBuild>): Updateable<TemplateBuildRow> {
  const columns = {
    status: changes.status,
    cpu_count: changes.cpuCount,
    memory_mb: changes.memoryMB,
    disk_mb: changes.diskMB,
    envd_version: changes.envdVersion,
    root_folder: changes.rootFolder,
    env_vars: changes.envVars && JSON.stringify(changes.envVars),
    default_user: changes.defaultUser,
    default_workdir: changes.defaultWorkdir,
    start_cmd: changes.startCmd,
    ready_cmd: changes.readyCmd,
    created_at: changes.createdAt,
    updated_at: changes.updatedAt,
    finished_at: changes.finishedAt,
  }
  return Object.fromEntries(Object.entries(columns).filter(([, value]) => value !== undefined))
}

function buildRow(build: TemplateBuild): TemplateBuildRow {
  const columns = buildColumns(build) as Omit<TemplateBuildRow, 'id' | 'template_id'>
  return { ...columns, id: build.buildID, template_id: build.templateID }
}

function buildOf(row: TemplateBuildRow): TemplateBuild {
  return {
    buildID: row.id,
    templateID: row.template_id,
    status: row.status,
    cpuCount: row.cpu_count,
    memoryMB: row.memory_mb,
    diskMB: row.disk_mb,
    envdVersion: row.envd_version,
    rootFolder: row.root_folder,
    envVars: JSON.parse(row.env_vars),
    defaultUser: row.default_user,
    defaultWorkdir: row.default_workdir,
    startCmd: row.start_cmd,
    readyCmd: row.ready_cmd,
    createdAt: row.created_at,
    updatedAt: row.updated_at,
    finishedAt: row.finished_at,
  }
}
