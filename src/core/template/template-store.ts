/** What is remembered of templates, their names, tags and builds. */
import type {
  BuildReason,
  BuildStatus,
  SnapshotEntry,
  TagAssignment,
  Template,
  TemplateBuild,
  TemplateName,
  TemplateSummary,
} from './template.ts'

export type SnapshotFilter = {
  teamID: string
  templateID?: string
  /** Only snapshots that carry this tag. */
  tag?: string
  /** Only snapshots that were taken of this sandbox. */
  sandboxID?: string
}

/** How many builds of the team's templates may be in one of these states. */
export type BuildLimit = { teamID: string; statuses: readonly BuildStatus[]; most: number }

/** A template that is inserted together with its first build. */
export type FreshTemplate = { template: Template; names: readonly TemplateName[] }

export interface TemplateStore {
  insertTemplate(template: Template, names: TemplateName[]): Promise<void>
  /** Inserts the build, and its template where that is `fresh`, in one step: no name is left without a build. */
  insertBuild(build: TemplateBuild, tags: readonly string[], fresh?: FreshTemplate): Promise<void>
  /**
   * Inserts the build, and its template where that is `fresh`, all in one step that parallel requests cannot pass
   * together. False: the team has as many builds already, and nothing was inserted.
   */
  insertBuildWithin(
    limit: BuildLimit,
    build: TemplateBuild,
    tags: readonly string[],
    fresh?: FreshTemplate,
  ): Promise<boolean>
  updateBuild(buildID: string, changes: Partial<TemplateBuild>): Promise<void>
  /** By alias in a namespace (null: the namespace-less, public names). */
  findByAlias(namespace: string | null, alias: string): Promise<Template | undefined>
  findByID(templateID: string): Promise<Template | undefined>
  /** The first of the template's namespace-less or own aliases, for the wire's `alias`. */
  aliasesOf(templateID: string): Promise<string[]>
  /** The build of the newest assignment of the tag whose build is ready; a build id may stand in place of a tag. */
  findReadyBuild(templateID: string, tagOrBuildID: string): Promise<TemplateBuild | undefined>
  /** A build of any status. */
  findBuild(buildID: string): Promise<TemplateBuild | undefined>
  /** In the order in which the template got them, those without a namespace first. */
  namesOf(templateID: string): Promise<TemplateName[]>
  /** One entry per snapshot template: its newest ready build. Newest first, then by template id. */
  listSnapshots(
    filter: SnapshotFilter,
    page: { limit: number; after?: { createdAt: number; templateID: string } },
  ): Promise<SnapshotEntry[]>
  /** Templates of the team that are no snapshots, by time of creation, then by id. */
  listTemplates(
    teamID: string,
    page: { order: 'asc' | 'desc'; limit: number; after?: { createdAt: number; templateID: string } },
  ): Promise<TemplateSummary[]>
  summaryOf(templateID: string): Promise<TemplateSummary | undefined>
  /** Newest first, then by id. */
  listBuilds(
    templateID: string,
    page: { limit: number; after?: { createdAt: number; buildID: string } },
  ): Promise<TemplateBuild[]>
  setPublic(templateID: string, isPublic: boolean, at: number): Promise<void>
  /** Rejects with `already_exists` when another template has the name; its own already is success. */
  addName(templateID: string, name: TemplateName): Promise<void>
  assignTags(templateID: string, buildID: string, tags: readonly string[], at: number): Promise<void>
  /** Every assignment of these tags; tags that are not there are ignored. */
  removeTags(templateID: string, tags: readonly string[]): Promise<void>
  /** The newest assignment of each tag whose build is ready, by name of the tag. */
  listTags(templateID: string): Promise<TagAssignment[]>
  /** The one way a build's status changes: compare and set. Undefined when it has moved on. */
  moveBuild(
    buildID: string,
    from: readonly BuildStatus[],
    to: BuildStatus,
    changes: Partial<TemplateBuild>,
  ): Promise<TemplateBuild | undefined>
  /** Ends waiting builds that carry one of the tags, but for this one; returns their ids. */
  supersede(
    build: { templateID: string; buildID: string },
    tags: readonly string[],
    reason: BuildReason,
    at: number,
  ): Promise<string[]>
  /** The builds under way that share a tag with this one and got it earlier. */
  listSuperseded(buildID: string): Promise<string[]>
  /** Builds of all teams in one of these states that were last touched before this time. */
  listBuildsIn(statuses: readonly BuildStatus[], before: number): Promise<TemplateBuild[]>
  /** Digests of the layers that builds stand on. */
  listLayers(): Promise<string[]>
  /** The names of the snapshots that builds of this node hold, and builds of any node that the object store has. */
  listSnapshotNames(): Promise<string[]>
  /**
   * Removes the template with its names, tags and builds, unless sandboxes of any team that have not ended use it;
   * none can be inserted at that moment. In the same step the snapshots of builds of other nodes are discarded, so that
   * these nodes remove them. `usedIn`: the states of the sandboxes that use it. Undefined when there is no such template.
   */
  deleteUnused(templateID: string): Promise<{ deleted: TemplateBuild[] } | { usedIn: string[] } | undefined>
  /** Adds to how often sandboxes were started of it, the last one at this time. */
  recordSpawns(templateID: string, count: number, at: number): Promise<void>
}
