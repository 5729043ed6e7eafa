/** Stored samples of sandboxes. */
import type { SandboxMetric } from './metric.ts'

export interface MetricStore {
  append(samples: readonly SandboxMetric[]): Promise<void>
  /** Oldest first. Both bounds are inclusive, in milliseconds. */
  range(sandboxID: string, from: number, to: number): Promise<SandboxMetric[]>
  /** The newest sample of each sandbox that has one. */
  latest(sandboxIDs: readonly string[]): Promise<SandboxMetric[]>
  prune(before: number): Promise<void>
}
