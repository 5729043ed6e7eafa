/** What is remembered of build steps, so that the team's next build does not repeat them. */

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

/** What a cached step takes of the disk, and when it was last used. */
export type CacheUse = Pick<CachedStep, 'key' | 'snapshotName' | 'layers'> & {
  teamID: string
  usedAt: number
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
