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
  envdVersion: string
  /** Of a base template that an older Warren made: its root, relative to the data folder. Null for all others. */
  rootFolder: string | null
  /** Digests of the layers it stands on, lowest first; null where it has a root folder, or is not built yet. */
  layers: string[] | null
  envVars: Record<string, string>
  defaultUser: string
  defaultWorkdir: string
  startCmd: string | null
  readyCmd: string | null
  /** What its sandboxes start from, instead of a root that nobody has written to. */
  snapshot: BuildSnapshot | null
  createdAt: number
  updatedAt: number
  finishedAt: number | null
  /** Why it failed, and in which step: `base`, `finalize`, or the number of the step, from 1 on. */
  reason: BuildReason | null
}

export type BuildReason = { message: string; step: string | null }

export type BuildSnapshot = {
  /** Of the snapshot; that of a snapshot, and no other, bears the id of its build. */
  name: string
  /** Their processes are there from the start. */
  memory: boolean
  /** Of which sandbox it was saved: the agent in that memory still knows its token. */
  sandboxID: string
}

/** A tag and the build it stands for. */
export type TagAssignment = { tag: string; buildID: string; assignedAt: number }

/** A template as it is listed: the newest ready build of its default tag, and what its newest build is doing. */
export type TemplateSummary = {
  template: Template
  names: TemplateName[]
  build: TemplateBuild | null
  /** Of the newest build of the default tag, ready or not. */
  buildStatus: BuildStatus
  buildCount: number
}

/** A snapshot as it is listed. */
export type SnapshotEntry = { templateID: string; tag: string; createdAt: number }

/** A template with the build that its reference chose. */
export type ResolvedTemplate = { template: Template; build: TemplateBuild; alias: string | null }
