import type { SandboxStats } from '../../ports/driver.ts'

export type SandboxMetric = Omit<SandboxStats, 'cpuTimeMs'> & {
  sandboxID: string
  at: number
  cpuCount: number
  /** The use of all its CPUs together: 100 means that all are busy. */
  cpuUsedPct: number
}
