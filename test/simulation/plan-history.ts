/** Makes the plan of a history from its seed. */
import {
  clusterProfiles,
  laterClusterProfiles,
  laterMachineProfiles,
  latestClusterProfiles,
  latestMachineProfiles,
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

/**
 * About one history in three is of a profile. Where the mishaps are given, the seed chooses none, so that a seed stands for
 * the same usual history with and without profiles.
 */
export function planHistory(seed: number, options: PlanOptions = {}): Plan {
  const random = new Random(seed ^ 0x9f0f11e)
  const isCluster = options.isCluster ?? (options.nodes ?? 1) > 1
  const chosen =
    chooseProfile(random, isCluster) ?? chooseLater(seed, isCluster) ?? chooseLatest(seed, isCluster)
  const profile = options.profile === undefined && !options.mishaps ? chosen : (options.profile ?? undefined)
  // A profile of one machine has one: two Warrens that know nothing of each other have the usual histories.
  const plan = planUsual(seed, profile && !isCluster ? { nodes: 1, isCluster: false, ...options } : options)
  if (profile) applyProfile(plan, profile, random)
  return plan
}

function chooseProfile(random: Random, isCluster: boolean): ProfileName | undefined {
  if (!random.chance(isCluster ? 0.5 : 0.35)) return undefined
  const profile = random.pick<ProfileName>(isCluster ? clusterProfiles : machineProfiles)
  return profile === rare && !random.chance(0.2) ? undefined : profile
}

/** By a draw of its own, among seeds that would have a usual history. */
function chooseLater(seed: number, isCluster: boolean): ProfileName | undefined {
  const random = new Random(seed ^ 0x3eb400c)
  if (!random.chance(isCluster ? 0.15 : 0.1)) return undefined
  return random.pick<ProfileName>(isCluster ? laterClusterProfiles : laterMachineProfiles)
}

function chooseLatest(seed: number, isCluster: boolean): ProfileName | undefined {
  const random = new Random(seed ^ 0x51d3ca1)
  if (!random.chance(isCluster ? 0.2 : 0.1)) return undefined
  return random.pick<ProfileName>(isCluster ? latestClusterProfiles : latestMachineProfiles)
}

export const isOfCluster = (name: ProfileName): boolean =>
  (
    [...clusterProfiles, ...laterClusterProfiles, ...latestClusterProfiles] as readonly ProfileName[]
  ).includes(name)
