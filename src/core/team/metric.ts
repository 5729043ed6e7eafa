/** What a team used at one moment. */
export type TeamMetric = {
  teamID: string
  at: number
  /** Sandboxes that ran. */
  concurrentSandboxes: number
  /** Sandboxes that began to run since the sample before. */
  startedSandboxes: number
}

/** The time from one sample to the next. Samples lie on multiples of it, so that those of several nodes add up. */
export const teamSampleEveryMs = 30_000
