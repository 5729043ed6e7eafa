import type { ExpressionBuilder, Kysely } from 'kysely'
import type { ReadyAssignment } from '../../core/template/tag-history.ts'
import type {
  BuildReason,
  BuildStatus,
  SnapshotEntry,
  TagAssignment,
  Template,
  TemplateBuild,
  TemplateName,
  TemplateSummary,
} from '../../core/template/template.ts'
import type {
  BuildLimit,
  FreshTemplate,
  NamedTemplate,
  SnapshotFilter,
  TemplateStore,
} from '../../core/template/template-store.ts'
import { AppError } from '../../lib/app-error.ts'
import { commitsLater } from '../database/commits-later.ts'
import type { Tables } from '../database/tables.ts'
import { markForRemoval } from '../snapshot/quarantine.ts'
import { listSnapshots, type SnapshotPage } from '../snapshot/snapshots.ts'
import { isUnended } from '../usage/sandbox-counts.ts'
import { insertBuild, insertBuildWithin, insertTemplate } from './build-insert.ts'
import { listBuildsIn, listSuperseded, supersede, transitionBuild } from './build-transitions.ts'
import { findReadyRow } from './ready-build.ts'
import {
  type BuildPage,
  listBuilds,
  listDefaultTemplates,
  listTemplates,
  summaryOf,
  type TemplatePage,
} from './template-list.ts'
import { findNamed } from './template-names.ts'
import { buildColumns, buildOf, digestsIn, namesOf, templateOf } from './template-row.ts'
import {
  addName,
  assignTags,
  listReadyAssignments,
  listTags,
  lockForDeletion,
  removeTags,
  unknownTemplate,
} from './template-tags.ts'

export class SqlTemplateStore implements TemplateStore {
  readonly #db: Kysely<Tables>
  readonly #nodeID: string

  /** All nodes share the templates; this store changes only builds of its own node. */
  constructor(db: Kysely<Tables>, nodeID: string) {
    this.#db = db
    this.#nodeID = nodeID
  }

  /** True if the build's bytes are on this node's disk or in the object store. */
  readonly #isHere = (where: ExpressionBuilder<Tables, 'template_builds'>) =>
    where.or([where('node_id', '=', this.#nodeID), where('stored_at', 'is not', null)])

  async insertTemplate(template: Template, names: TemplateName[]): Promise<void> {
    await this.#db.transaction().execute((transaction) => insertTemplate(transaction, template, names))
  }

  async insertBuild(build: TemplateBuild, tags: readonly string[], fresh?: FreshTemplate): Promise<void> {
    await this.#db.transaction().execute(async (transaction) => {
      if (fresh) await insertTemplate(transaction, fresh.template, fresh.names)
      await insertBuild(transaction, build, tags, this.#nodeID)
    })
  }

  insertBuildWithin(
    limit: BuildLimit,
    build: TemplateBuild,
    tags: readonly string[],
    fresh?: FreshTemplate,
  ): Promise<boolean> {
    return insertBuildWithin(this.#db, { limit, build, tags, fresh, nodeID: this.#nodeID })
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

  findNamed(names: readonly TemplateName[], templateID?: string): Promise<NamedTemplate | undefined> {
    return findNamed(this.#db, names, templateID)
  }

  async namesOf(templateID: string): Promise<TemplateName[]> {
    const rows = await this.#db
      .selectFrom('template_aliases')
      .select(['namespace', 'alias'])
      .where('template_id', '=', templateID)
      .orderBy('position')
      .execute()
    return namesOf(rows)
  }

  async findReadyBuild(templateID: string, tagOrBuildID: string): Promise<TemplateBuild | undefined> {
    const row = await findReadyRow(this.#db, { templateID, tagOrBuildID }, this.#isHere)
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

  listTemplates(teamID: string, page: TemplatePage): Promise<TemplateSummary[]> {
    return listTemplates(this.#db, teamID, page)
  }

  listDefaultTemplates(): Promise<TemplateSummary[]> {
    return listDefaultTemplates(this.#db)
  }

  summaryOf(templateID: string): Promise<TemplateSummary | undefined> {
    return summaryOf(this.#db, templateID)
  }

  listBuilds(templateID: string, page: BuildPage): Promise<TemplateBuild[]> {
    return listBuilds(this.#db, templateID, page)
  }

  async setPublic(templateID: string, isPublic: boolean, at: number): Promise<void> {
    const { numUpdatedRows } = await this.#db
      .updateTable('templates')
      .set({ is_public: isPublic ? 1 : 0, updated_at: at })
      .where('id', '=', templateID)
      .executeTakeFirstOrThrow()
    if (numUpdatedRows === 0n) throw unknownTemplate(templateID)
  }

  addName(templateID: string, name: TemplateName): Promise<void> {
    return addName(this.#db, templateID, name)
  }

  assignTags(templateID: string, buildID: string, tags: readonly string[], at: number): Promise<void> {
    return assignTags(this.#db, templateID, buildID, tags, at)
  }

  removeTags(templateID: string, tags: readonly string[]): Promise<void> {
    return removeTags(this.#db, templateID, tags)
  }

  listReadyAssignments(templateID: string, tag?: string): Promise<ReadyAssignment[]> {
    return listReadyAssignments(this.#db, templateID, tag)
  }

  listTags(templateID: string): Promise<TagAssignment[]> {
    return listTags(this.#db, templateID)
  }

  transitionBuild(
    buildID: string,
    from: readonly BuildStatus[],
    to: BuildStatus,
    changes: Partial<TemplateBuild>,
  ): Promise<TemplateBuild | undefined> {
    return transitionBuild(this.#db, this.#nodeID, { buildID, from, to, changes })
  }

  supersede(
    build: { templateID: string; buildID: string },
    tags: readonly string[],
    reason: BuildReason,
    at: number,
  ): Promise<string[]> {
    return supersede(this.#db, build, tags, reason, at)
  }

  listSuperseded(buildID: string): Promise<string[]> {
    return listSuperseded(this.#db, buildID)
  }

  listBuildsIn(statuses: readonly BuildStatus[], before: number): Promise<TemplateBuild[]> {
    return listBuildsIn(this.#db, this.#nodeID, statuses, before)
  }

  async listLayers(): Promise<string[]> {
    const rows = await this.#db
      .selectFrom('template_builds')
      .select('layers')
      .distinct()
      .where('layers', 'is not', null)
      .where('node_id', '=', this.#nodeID)
      .$narrowType<{ layers: string }>()
      .execute()
    return digestsIn(rows)
  }

  async listSnapshotNames(): Promise<string[]> {
    const rows = await this.#db
      .selectFrom('template_builds')
      .select('saved_name')
      .distinct()
      .where('saved_name', 'is not', null)
      .where(this.#isHere)
      .$narrowType<{ saved_name: string }>()
      .execute()
    return rows.map(({ saved_name }) => saved_name)
  }

  deleteUnused(templateID: string): ReturnType<TemplateStore['deleteUnused']> {
    // The second statement must see the builds that were committed while the first waited.
    const transaction = this.#db.transaction().setIsolationLevel('read committed')
    return transaction.execute(async (locked) => {
      // Locks the template's row: a build or sandbox inserted at this moment is either seen here or rejected.
      if (!(await lockForDeletion(locked, templateID))) return undefined
      const users = await locked
        .selectFrom('sandboxes')
        .select('state')
        .distinct()
        .where('template_id', '=', templateID)
        .where(isUnended)
        .execute()
      if (users.length > 0) return { usedIn: users.map(({ state }) => state) }
      const builds = await locked
        .deleteFrom('template_builds')
        .where('template_id', '=', templateID)
        .returningAll()
        .execute()
      await locked.deleteFrom('templates').where('id', '=', templateID).execute()
      await markForRemoval(
        locked,
        builds.flatMap(({ saved_name, node_id }) =>
          saved_name !== null && node_id !== null && node_id !== this.#nodeID
            ? [{ snapshotName: saved_name, nodeID: node_id }]
            : [],
        ),
      )
      return { deleted: builds.map(buildOf) }
    })
  }

  async recordCreates(templateID: string, count: number, at: number): Promise<void> {
    await this.#db
      .updateTable('templates')
      .set((set) => ({ spawn_count: set('spawn_count', '+', count), last_spawned_at: at }))
      .where('id', '=', templateID)
      .returning(commitsLater(this.#db).as('later'))
      .execute()
  }
}
