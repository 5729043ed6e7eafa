export type Template = {
  templateID: string
  /** Null: made by Warren itself and usable by every team. */
  teamID: string | null
  public: boolean
  createdAt: number
  updatedAt: number
  lastSpawnedAt: number | null
  spawnCount: number
}

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
  createdAt: number
  updatedAt: number
  finishedAt: number | null
}

/** A template with the build that its reference chose. */
export type ResolvedTemplate = { template: Template; build: TemplateBuild; alias: string | null }
