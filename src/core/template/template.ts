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
  /** The root filesystem, relative to the data folder. Null until the build is ready. */
  rootFolder: string | null
  envVars: Record<string, string>
  defaultUser: string
  defaultWorkdir: string
  startCmd: string | null
  readyCmd: string | null
  /** What its sandboxes start from, instead of a root that nobody has written to. */
  saved: SavedBuild | null
  createdAt: number
  updatedAt: number
  finishedAt: number | null
}

export type SavedBuild = {
  /** Of the saved state. */
  name: string
  /** Their processes are there from the start. */
  memory: boolean
  /** Of which sandbox it was saved: the agent in that memory still knows its token. */
  sandboxID: string
}

/** A snapshot as it is listed. */
export type SnapshotEntry = { templateID: string; tag: string; createdAt: number }

/** A template with the build that its reference chose. */
export type ResolvedTemplate = { template: Template; build: TemplateBuild; alias: string | null }
