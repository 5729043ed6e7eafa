import type { StartRequest } from './start-request.ts'

export type Template = {
  templateID: string
  /** Null: made by Warren itself and usable by every team. */
  teamID: string | null
  public: boolean
  /** Made by a snapshot of a sandbox, not by a build. */
  isSnapshot: boolean
  createdAt: number
  updatedAt: number
  lastSpawnedAt: number | null
  spawnCount: number
}

/** Null: a public name without namespace. */
export type TemplateName = { namespace: string | null; alias: string }

export type BuildStatus = 'waiting' | 'building' | 'ready' | 'error'

export type TemplateBuild = {
  buildID: string
  templateID: string
  status: BuildStatus
  cpuCount: number
  memoryMB: number
  diskMB: number
  /** Of each of its sandboxes; missing: none. */
  gpuCount?: number
  envdVersion: string
  /** The root below the data folder, for base templates that older versions of Warren made; null for all others. */
  rootFolder: string | null
  /** Digests of the layers it stands on, lowest first; null where it has a root folder, or is not built yet. */
  layers: string[] | null
  envVars: Record<string, string>
  /**
   * The variables that the sandbox was created with which the build was made of. They may be secrets: only sandboxes of
   * the team that has the template get them.
   */
  sandboxEnvVars?: Record<string, string>
  defaultUser: string
  defaultWorkdir: string
  startCmd: string | null
  readyCmd: string | null
  /** What it is to be made of, where its client says so when it requests it; null from its start on. */
  startRequest: StartRequest | null
  /** What the two run in, where they are another template's; null: what the build says itself. */
  serviceContext: ServiceContext | null
  /** The snapshot that sandboxes start from; null: they boot from the root as it is. */
  snapshot: BuildSnapshot | null
  createdAt: number
  updatedAt: number
  finishedAt: number | null
  /** Why it failed, and in which step: `base`, `finalize`, or the number of the step, from 1 on. */
  reason: BuildReason | null
}

/** Who runs a command, where, and with which variables. */
export type ServiceContext = { user: string; workdir: string; envVars: Record<string, string> }

export type BuildReason = { message: string; step: string | null }

export type BuildSnapshot = {
  /** The name of the snapshot. A build that was made of a sandbox, and no other, gives its own id as the name. */
  name: string
  /** True: the snapshot holds memory, so its processes run from the start. */
  memory: boolean
  /** The sandbox it was taken of: the agent in that memory still knows that sandbox's token. */
  sandboxID: string
}

/** A tag and the build it stands for. */
export type TagAssignment = { tag: string; buildID: string; assignedAt: number }

/** A template as it is listed: the newest ready build of its default tag, and what its newest build is doing. */
export type TemplateSummary = {
  template: Template
  names: TemplateName[]
  build: TemplateBuild | null
  /** The status of the newest build of the default tag, ready or not. */
  buildStatus: BuildStatus
  buildCount: number
}

/** A snapshot as it is listed. */
export type SnapshotEntry = { templateID: string; tag: string; createdAt: number }

/** A template with the build that its reference chose. */
export type ResolvedTemplate = { template: Template; build: TemplateBuild; alias: string | null }
