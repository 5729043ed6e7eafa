/** Makes the plan of a history from its seed. */
import {
  clusterProfiles,
  machineProfiles,
  type Plan,
  type PlanOptions,
  type ProfileName,
  planUsual,
} from './plan.ts'
import { applyProfile } from './profiles.ts'
import { Random } from './random.ts'

/** Its histories take several times as long as others. */
const rare: ProfileName = 'many due'

/** Almost every second history is of a profile. Where the mishaps are given, the seed chooses none. */
export function planHistory(seed: number, options: PlanOptions = {}): Plan {
  const random = new Random(seed ^ 0x9f0f11e)
  const isCluster = options.isCluster ?? (options.nodes ?? 1) > 1
  const chosen = chooseProfile(random, isCluster)
  const profile = options.profile === undefined && !options.mishaps ? chosen : (options.profile ?? undefined)
  // A profile of one machine has one: two Warrens that know nothing of each other have the usual histories.
  const plan = planUsual(seed, profile && !isCluster ? { nodes: 1, isCluster: false, ...options } : options)
  if (profile) applyProfile(plan, profile, random)
  return plan
}

function chooseProfile(random: Random, isCluster: boolean): ProfileName | undefined {
  if (!random.chance(isCluster ? 0.65 : 0.45)) return undefined
  const profile = random.pick<ProfileName>(isCluster ? clusterProfiles : machineProfiles)
  return profile === rare && !random.chance(0.2) ? undefined : profile
}

export const isOfCluster = (name: ProfileName): boolean =>
  (clusterProfiles as readonly ProfileName[]).includes(name)
