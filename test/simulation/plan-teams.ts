import type { Plan } from './plan.ts'

const generous = { maxSandboxes: 100, maxCPU: 1000, maxMemoryMB: 100_000, maxLifetimeHours: 24, maxGPUs: 8 }

/** Limits keep nobody from anything. */
export function setGenerousLimits(plan: Plan): void {
  for (const team of plan.teams) team.limits = generous
}

export function setTeams(plan: Plan, count: number): void {
  plan.teams = Array.from({ length: count }, (_, at) => ({
    slug: `team${at}`,
    limits: (plan.teams[at] ?? plan.teams[0]!).limits,
  }))
}
