/** Results of build steps, so that the team's next build does not repeat them. */

/** The result of a build step, for the team's next build that begins with the same steps. */
export type CachedStep = {
  key: string
  /** The snapshot's name; null if no step wrote anything above the base. */
  snapshotName: string | null
  layers: string[] | null
  rootFolder: string | null
  envVars: Record<string, string>
  user: string
  workdir: string
}

/** The disk use of a cached step, and when it was last used. */
export type CacheUse = Pick<CachedStep, 'key' | 'snapshotName' | 'layers'> & {
  teamID: string
  usedAt: number
}

export interface BuildCacheStore {
  /** Also records `at` as the time of its last use. */
  find(teamID: string, key: string, at: number): Promise<CachedStep | undefined>
  put(teamID: string, step: CachedStep, at: number): Promise<void>
  listSnapshotNames(): Promise<string[]>
  /** The steps of all teams, longest unused first. */
  list(): Promise<CacheUse[]>
  /** Removes those of the steps that nobody has used since they were listed, and returns them. */
  remove(steps: readonly CacheUse[]): Promise<CacheUse[]>
}
