/** Checks whether the system's programs are installed, and whether each runtime really starts something. */
import type { Config } from '../config/config.ts'
import { type Isolation, isolations, namesOf, wantedOrWeaker } from '../isolation/isolations.ts'
import { type Finding, fail, ok, warn } from '../setup/finding.ts'
import { findSystemProgram } from '../setup/programs.ts'
import { missingNeeds, type Need, systemNeeds } from '../setup/system-packages.ts'
import type { MachineCheck } from './machine-check.ts'

export function judgePrograms(missing: readonly Need[], hasApt: boolean): Finding {
  if (missing.length === 0) return ok('all there')
  const packages = missing.map((need) => need.package).join(' ')
  if (hasApt) return warn(`missing: ${packages}`, '`npm start` installs them with apt-get.')
  return fail(
    `missing: ${missing.map((need) => need.file).join(', ')}`,
    'Install them; there is no apt-get here.',
  )
}

async function tryRuntime(name: string, { loadRuntime }: Isolation, config: Config): Promise<Finding> {
  const { isolation: wanted } = config
  if (!wantedOrWeaker(wanted, isolations).some((each) => each === name))
    return ok(`not wanted: WARREN_ISOLATION is ${wanted}`)
  return (await loadRuntime()).examine(config, wanted === name)
}

export const runtimeChecks: readonly MachineCheck[] = [
  {
    name: 'programs',
    look: () => judgePrograms(missingNeeds(systemNeeds), Boolean(findSystemProgram('apt-get'))),
  },
  ...namesOf(isolations)
    .toReversed()
    .map((name) => ({
      name: isolations[name].runtimeLabel,
      look: (config: Config) => tryRuntime(name, isolations[name], config),
    })),
]
