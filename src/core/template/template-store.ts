/** Stored templates with their names, tags and builds. */
import type { ReadyAssignment } from './tag-history.ts'
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
  /** Selects snapshots that have this tag. */
  tag?: string
  /** Selects snapshots that were taken of this sandbox. */
  sandboxID?: string
}

/** The maximum number of builds of the team's templates in these states. */
export type BuildLimit = { teamID: string; statuses: readonly BuildStatus[]; max: number }

/** A template that is inserted together with its first build. */
export type FreshTemplate = { template: Template; names: readonly TemplateName[] }

/** `alias`: the first of the template's aliases, for the wire. */
export type NamedTemplate = { template: Template; alias: string | null }

export interface TemplateStore {
  insertTemplate(template: Template, names: TemplateName[]): Promise<void>
  /**
   * Inserts the build, and its template if that is `fresh`, atomically, so that no name is left without a
   * build.
   */
  insertBuild(build: TemplateBuild, tags: readonly string[], fresh?: FreshTemplate): Promise<void>
  /**
   * Inserts the build, and its template if that is `fresh`, atomically, so that concurrent requests cannot
   * exceed the limit together. False if the team has reached the limit; nothing is inserted then.
   */
  insertBuildWithin(
    limit: BuildLimit,
    build: TemplateBuild,
    tags: readonly string[],
    fresh?: FreshTemplate,
  ): Promise<boolean>
  updateBuild(buildID: string, changes: Partial<TemplateBuild>): Promise<void>
  /** Finds by alias in a namespace; a null namespace holds the public names. */
  findByAlias(namespace: string | null, alias: string): Promise<Template | undefined>
  findByID(templateID: string): Promise<Template | undefined>
  /** Finds by the first of these names that a template has, or else by this ID. */
  findNamed(names: readonly TemplateName[], templateID?: string): Promise<NamedTemplate | undefined>
  /** The build of the tag's newest assignment whose build is ready. A build ID may replace the tag. */
  findReadyBuild(templateID: string, tagOrBuildID: string): Promise<TemplateBuild | undefined>
  /** Finds a build in any status. */
  findBuild(buildID: string): Promise<TemplateBuild | undefined>
  /** In the order in which the template got them, those without a namespace first. */
  namesOf(templateID: string): Promise<TemplateName[]>
  /** One entry per snapshot template, for its newest ready build. Newest first, then by template ID. */
  listSnapshots(
    filter: SnapshotFilter,
    page: { limit: number; after?: { createdAt: number; templateID: string } },
  ): Promise<SnapshotEntry[]>
  /** The team's templates that are not snapshots, by time of creation, then by ID. */
  listTemplates(
    teamID: string,
    page: { order: 'asc' | 'desc'; limit: number; after?: { createdAt: number; templateID: string } },
  ): Promise<TemplateSummary[]>
  /** The templates of all teams that belong to none, by ID. */
  listDefaultTemplates(): Promise<TemplateSummary[]>
  summaryOf(templateID: string): Promise<TemplateSummary | undefined>
  /** Newest first, then by ID. */
  listBuilds(
    templateID: string,
    page: { limit: number; after?: { createdAt: number; buildID: string } },
  ): Promise<TemplateBuild[]>
  setPublic(templateID: string, isPublic: boolean, at: number): Promise<void>
  /**
   * Rejects with `already_exists` if another template has the name. Succeeds if this template has it already.
   */
  addName(templateID: string, name: TemplateName): Promise<void>
  assignTags(templateID: string, buildID: string, tags: readonly string[], at: number): Promise<void>
  /** Removes every assignment of these tags. Unknown tags are ignored. */
  removeTags(templateID: string, tags: readonly string[]): Promise<void>
  /** The newest assignment of each tag whose build is ready, ordered by tag. */
  listTags(templateID: string): Promise<TagAssignment[]>
  /** All assignments to ready builds, of this tag alone if there is one, newest first. */
  listReadyAssignments(templateID: string, tag?: string): Promise<ReadyAssignment[]>
  /**
   * The only way to change a build's status: compare and set. Undefined if the status is not in `from` any
   * more.
   */
  transitionBuild(
    buildID: string,
    from: readonly BuildStatus[],
    to: BuildStatus,
    changes: Partial<TemplateBuild>,
  ): Promise<TemplateBuild | undefined>
  /** Ends waiting builds that have one of the tags, except this one. Returns their IDs. */
  supersede(
    build: { templateID: string; buildID: string },
    tags: readonly string[],
    reason: BuildReason,
    at: number,
  ): Promise<string[]>
  /** The builds under way that share a tag with this one and got it earlier. */
  listSuperseded(buildID: string): Promise<string[]>
  /** Builds of all teams in one of these states that were last changed before this time. */
  listBuildsIn(statuses: readonly BuildStatus[], before: number): Promise<TemplateBuild[]>
  /** Digests of the layers that builds use. */
  listLayers(): Promise<string[]>
  /** Names of the snapshots of this node's builds, and of stored builds of any node. */
  listSnapshotNames(): Promise<string[]>
  /**
   * Removes the template with its names, tags and builds, unless sandboxes of any team that have not ended
   * use it; atomic against inserts of sandboxes. In the same transaction the snapshots of other nodes' builds
   * are marked for removal, so that these nodes remove them. `usedIn`: the states of the sandboxes that use
   * it. Undefined if there is no such template.
   */
  deleteUnused(templateID: string): Promise<{ deleted: TemplateBuild[] } | { usedIn: string[] } | undefined>
  /** Adds to the count of sandboxes created from it; `at` is the time of the last one. */
  recordCreates(templateID: string, count: number, at: number): Promise<void>
}
