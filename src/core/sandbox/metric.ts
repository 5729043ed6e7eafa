import type { SandboxStats } from '../driver.ts'

export type SandboxMetric = Omit<SandboxStats, 'cpuTimeMs'> & {
  sandboxID: string
  at: number
  cpuCount: number
  /** Of all its CPUs together: 100 is all of them busy. */
  cpuUsedPct: number
}
