/** The usage of a team at one moment. */
export type TeamMetric = {
  teamID: string
  at: number
  /** Running sandboxes. */
  concurrentSandboxes: number
  /** Sandboxes that started since the previous sample. */
  startedSandboxes: number
}

/** Interval between samples. Samples lie on multiples of it, so that those of several nodes add up. */
export const teamSampleEveryMs = 30_000
