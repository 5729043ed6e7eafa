import type { Kysely } from 'kysely'
import type { SnapshotFilter, TemplateStore } from '../core/stores.ts'
import type { SnapshotEntry, Template, TemplateBuild, TemplateName } from '../core/template/template.ts'
import { AppError, isAppError } from '../lib/app-error.ts'
import { listSnapshots, type SnapshotPage } from './snapshots.ts'
import type { Tables } from './tables.ts'
import { buildColumns, buildOf, buildRow, templateOf, templateRow } from './template-row.ts'

const uuidForm = /^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$/

export class SqlTemplateStore implements TemplateStore {
  readonly #db: Kysely<Tables>

  constructor(db: Kysely<Tables>) {
    this.#db = db
  }

  async insertTemplate(template: Template, names: TemplateName[]): Promise<void> {
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
    return (await this.namesOf(templateID)).map(({ alias }) => alias)
  }

  async namesOf(templateID: string): Promise<TemplateName[]> {
    const rows = await this.#db
      .selectFrom('template_aliases')
      .select(['namespace', 'alias'])
      .where('template_id', '=', templateID)
      .orderBy('position')
      .execute()
    const bare = rows.filter(({ namespace }) => namespace === '')
    const own = rows.filter(({ namespace }) => namespace !== '')
    return [...bare, ...own].map(({ namespace, alias }) => ({ namespace: namespace || null, alias }))
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

  async findBuild(buildID: string): Promise<TemplateBuild | undefined> {
    const row = await this.#db
      .selectFrom('template_builds')
      .selectAll()
      .where('id', '=', buildID)
      .executeTakeFirst()
    return row && buildOf(row)
  }

  listSnapshots(filter: SnapshotFilter, page: SnapshotPage): Promise<SnapshotEntry[]> {
    return listSnapshots(this.#db, filter, page)
  }

  async listSavedNames(): Promise<string[]> {
    const rows = await this.#db
      .selectFrom('template_builds')
      .select('saved_name')
      .distinct()
      .where('saved_name', 'is not', null)
      .$narrowType<{ saved_name: string }>()
      .execute()
    return rows.map(({ saved_name }) => saved_name)
  }

  deleteTemplate(templateID: string): Promise<TemplateBuild[] | undefined> {
    // The second statement must see the builds that were committed while the first waited.
    const transaction = this.#db.transaction().setIsolationLevel('read committed')
    return transaction.execute(async (locked) => {
      // Holds the template's row: a build that is inserted at this moment is either returned or refused.
      const held = await locked
        .updateTable('templates')
        .set((set) => ({ updated_at: set.ref('updated_at') }))
        .where('id', '=', templateID)
        .executeTakeFirstOrThrow()
      if (held.numUpdatedRows === 0n) return undefined
      const builds = await locked
        .deleteFrom('template_builds')
        .where('template_id', '=', templateID)
        .returningAll()
        .execute()
      await locked.deleteFrom('templates').where('id', '=', templateID).execute()
      return builds.map(buildOf)
    })
  }

  async recordSpawn(templateID: string, at: number): Promise<void> {
    await this.#db
      .updateTable('templates')
      .set((set) => ({ spawn_count: set('spawn_count', '+', 1), last_spawned_at: at }))
      .where('id', '=', templateID)
      .execute()
  }
}
