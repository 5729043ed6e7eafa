/**
 * What the domain needs remembered. Every method is one atomic step; none knows HTTP or a driver. A step that changes
 * something has an outcome of three kinds. Done, and not done: the method resolves, or rejects with what the step found
 * (`already_exists`, `not_found`, …). Unknown: it rejects with anything else, with `unavailable` when the failure may
 * pass (the connection was lost, the database was busy, a deadlock). Who needs to know then reads back what identifies
 * this very step; nobody takes an unknown outcome for a step that did not happen.
 */
import type { ArchiveStore } from './archive/archive-store.ts'
import type { NodeStore, OwnerStore } from './cluster/node.ts'
import type { DeliveryStore, EventStore, LeaseStore, WebhookStore } from './event-stores.ts'
import type { SandboxMetric } from './sandbox/metric.ts'
import type { QuarantineStore } from './sandbox/quarantine-store.ts'
import type { SandboxState } from './sandbox/sandbox.ts'
import type { SandboxStore } from './sandbox/sandbox-store.ts'
import type { SecretStore } from './secret/secret-store.ts'
import type { TeamMetric } from './team/metric.ts'
import type { AccessToken, ApiKey, Team, TeamLimits } from './team/team.ts'
import type {
  BuildReason,
  BuildStatus,
  SnapshotEntry,
  TagAssignment,
  Template,
  TemplateBuild,
  TemplateName,
  TemplateSummary,
} from './template/template.ts'
import type { Volume } from './volume/volume.ts'

export interface TeamStore {
  /** Rejects with `already_exists` when the slug is taken. */
  insertTeam(team: Team): Promise<void>
  findTeam(idOrSlug: string): Promise<Team | undefined>
  listTeams(): Promise<Team[]>
  setLimits(teamID: string, limits: TeamLimits): Promise<void>
  /**
   * Removes the team with its keys, tokens, secrets, cached build steps and what is remembered of ended sandboxes, unless it
   * still has sandboxes, templates or volumes; none can be inserted at that moment. Undefined when there is no such team.
   */
  deleteUnused(
    teamID: string,
  ): Promise<{ deleted: true } | { sandboxes: number; templates: number; volumes: number } | undefined>
}

export interface KeyStore {
  insertKey(key: ApiKey & { hash: string }): Promise<void>
  /** Finds the live key with this hash, and its team. */
  findByHash(hash: string): Promise<{ key: ApiKey; hash: string; team: Team } | undefined>
  listKeys(teamID: string): Promise<ApiKey[]>
  /** Those of access tokens among them. */
  countLiveKeys(teamID: string): Promise<number>
  /** False when the team has no such live key. */
  revokeKey(teamID: string, keyID: string, at: number): Promise<boolean>
  touchKey(keyID: string, at: number): Promise<void>
  /** False when the team has no such live key. */
  renameKey(teamID: string, keyID: string, name: string): Promise<boolean>
}

export interface AccessTokenStore {
  /** Inserts the token together with the API key that it brings. */
  insert(token: AccessToken & { hash: string }, key: ApiKey & { hash: string }): Promise<void>
  /** Finds the live token with this hash, and its team. */
  findByHash(hash: string): Promise<{ token: AccessToken; hash: string; team: Team } | undefined>
  /** Revokes the token and the API key that it brings. False when the team has no such live token. */
  revoke(teamID: string, tokenID: string, at: number): Promise<boolean>
}

export interface TeamMetricStore {
  append(samples: readonly TeamMetric[]): Promise<void>
  /** The sums over all nodes, oldest first; both bounds are inclusive milliseconds. */
  range(teamID: string, from: number, to: number): Promise<TeamMetric[]>
  /** How many of each team's sandboxes run on this node, and how many of them began at or after `startedSince`. */
  count(startedSince: number): Promise<Omit<TeamMetric, 'at'>[]>
  /** How many of each team's sandboxes run, on all nodes. */
  countRunning(): Promise<{ teamID: string; count: number }[]>
  prune(before: number): Promise<void>
}

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
   * these nodes remove them. Undefined when there is no such template.
   */
  deleteUnused(
    templateID: string,
  ): Promise<{ deleted: TemplateBuild[] } | { usedIn: SandboxState[] } | undefined>
  /** Adds to how often sandboxes were started of it, the last one at this time. */
  recordSpawns(templateID: string, count: number, at: number): Promise<void>
}

export interface MetricStore {
  append(samples: readonly SandboxMetric[]): Promise<void>
  /** Oldest first; both bounds are inclusive milliseconds. */
  range(sandboxID: string, from: number, to: number): Promise<SandboxMetric[]>
  /** The newest sample of each sandbox that has one. */
  latest(sandboxIDs: readonly string[]): Promise<SandboxMetric[]>
  prune(before: number): Promise<void>
}

/** The result of a build step, for the team's next build that begins with the same steps. */
export type CachedStep = {
  key: string
  /** The snapshot's name; null where nothing was ever written above the base. */
  snapshotName: string | null
  layers: string[] | null
  rootFolder: string | null
  envVars: Record<string, string>
  user: string
  workdir: string
}

export interface BuildCacheStore {
  /** Also records the time as that of its last use. */
  find(teamID: string, key: string, at: number): Promise<CachedStep | undefined>
  put(teamID: string, step: CachedStep, at: number): Promise<void>
  listSnapshotNames(): Promise<string[]>
  /** The steps of all teams, the longest unused first. */
  list(): Promise<CacheUse[]>
  /** Forgets those of the steps that nobody has used since they were listed, and returns these. */
  remove(steps: readonly CacheUse[]): Promise<CacheUse[]>
}

/** What a cached step takes of the disk, and when it was last used. */
export type CacheUse = Pick<CachedStep, 'key' | 'snapshotName' | 'layers'> & {
  teamID: string
  usedAt: number
}

/** The volumes whose disks are on this node, but for `list`. */
export interface VolumeStore {
  /**
   * Inserts the volume if the team has fewer than `most`, in one step that parallel creates cannot pass together; false
   * when the team has as many. Rejects with `already_exists` when the team has the name.
   */
  insert(volume: Volume, most: number): Promise<boolean>
  /** One that was being created is ready. Undefined when it is not there in that state. */
  markReady(volumeID: string): Promise<Volume | undefined>
  /** In any state. */
  find(volumeID: string): Promise<Volume | undefined>
  /** The team's volumes that are ready, on all nodes, the oldest first. */
  list(teamID: string): Promise<Volume[]>
  /** The same of this node alone. */
  listHere(teamID: string): Promise<Volume[]>
  /** The volumes of all teams, in any state. */
  listAll(): Promise<Volume[]>
  /**
   * A ready volume is being deleted from now on, unless sandboxes that have not ended use it; none can be inserted at
   * that moment. Undefined when it is not ready.
   */
  beginDeletion(volumeID: string): Promise<{ begun: true } | { usedBy: string[] } | undefined>
  /** One that was being created is being deleted from now on. Undefined when it is not there in that state. */
  cancelCreation(volumeID: string): Promise<Volume | undefined>
  /** Forgets a volume that is being deleted. Forgotten already is success. */
  remove(volumeID: string): Promise<void>
}

export type Stores = {
  teams: TeamStore
  keys: KeyStore
  accessTokens: AccessTokenStore
  teamMetrics: TeamMetricStore
  templates: TemplateStore
  sandboxes: SandboxStore
  quarantine: QuarantineStore
  metrics: MetricStore
  buildCache: BuildCacheStore
  secrets: SecretStore
  volumes: VolumeStore
  events: EventStore
  webhooks: WebhookStore
  deliveries: DeliveryStore
  leases: LeaseStore
  archive: ArchiveStore
  nodes: NodeStore
  owners: OwnerStore
  close(): Promise<void>
}
