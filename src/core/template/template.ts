import type { StartRequest } from './start-request.ts'

export type Template = {
  templateID: string
  /** Null if Warren itself made the template; every team may use it. */
  teamID: string | null
  public: boolean
  /** Made from a snapshot of a sandbox, not by a build. */
  isSnapshot: boolean
  createdAt: number
  updatedAt: number
  lastSpawnedAt: number | null
  spawnCount: number
}

/** A null namespace makes the name public. */
export type TemplateName = { namespace: string | null; alias: string }

export type BuildStatus = 'waiting' | 'building' | 'ready' | 'error'

export type TemplateBuild = {
  buildID: string
  templateID: string
  status: BuildStatus
  cpuCount: number
  memoryMB: number
  diskMB: number
  /** GPUs of each sandbox of the template; missing: no GPUs. */
  gpuCount?: number
  envdVersion: string
  /**
   * The root folder below the data folder, for base templates that older versions of Warren made; null for
   * all others.
   */
  rootFolder: string | null
  /** Digests of its layers, lowest first. Null if it has a root folder or is not built yet. */
  layers: string[] | null
  envVars: Record<string, string>
  /**
   * The variables of the sandbox from which the build was made. They may be secrets: only sandboxes of the
   * team that owns the template get them.
   */
  sandboxEnvVars?: Record<string, string>
  defaultUser: string
  defaultWorkdir: string
  startCmd: string | null
  readyCmd: string | null
  /**
   * The source and steps of the build, if the client gave them with the request; null once the build has
   * started.
   */
  startRequest: StartRequest | null
  /**
   * User, folder and variables for the two commands, if they come from another template. Null: those of the
   * build itself.
   */
  serviceContext: ServiceContext | null
  /** The snapshot that sandboxes start from. Null: they boot from the root filesystem. */
  snapshot: BuildSnapshot | null
  createdAt: number
  updatedAt: number
  finishedAt: number | null
  /** Why the build failed, and in which step: `base`, `finalize`, or the number of the step, from 1 on. */
  reason: BuildReason | null
}

/** The user, folder and variables of a command. */
type ServiceContext = { user: string; workdir: string; envVars: Record<string, string> }

export type BuildReason = { message: string; step: string | null }

export type BuildSnapshot = {
  /**
   * The name of the snapshot. A build that was made from a sandbox, and no other, uses its own ID as the
   * name.
   */
  name: string
  /** True if the snapshot holds memory, so that its processes run from the start. */
  memory: boolean
  /** The sandbox that the snapshot was taken of: the agent in that memory still has that sandbox's token. */
  sandboxID: string
}

/** A tag and its build. */
export type TagAssignment = { tag: string; buildID: string; assignedAt: number }

/** A template in a list: the newest ready build of its default tag, and the status of its newest build. */
export type TemplateSummary = {
  template: Template
  names: TemplateName[]
  build: TemplateBuild | null
  /** The status of the newest build of the default tag, ready or not. */
  buildStatus: BuildStatus
  buildCount: number
}

/** A snapshot in a list. */
export type SnapshotEntry = {
  templateID: string
  tag: string
  createdAt: number
  /** The sandbox that it was taken of. */
  sandboxID: string
  cpuCount: number
  memoryMB: number
  diskMB: number
}

/** A template with the build that its reference selects. */
export type ResolvedTemplate = { template: Template; build: TemplateBuild; alias: string | null }
