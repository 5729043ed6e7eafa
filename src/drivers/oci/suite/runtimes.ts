/** The runtimes for driver tests. Each has its own subnets, so that tests of both can run at the same time. */
import { type Isolation, seat, testPlace } from '../../../../test/support/warren.ts'
import type { OciDriverOptions } from '../context/driver-options.ts'
import { type OciBench, openOciBench } from './bench.ts'

const runtimes = { container: 'runc', gvisor: 'runsc' } as const
const number = 10 * testPlace + seat
const subnets = { container: `10.241.${2 * number}.0/24`, gvisor: `10.241.${2 * number + 1}.0/24` }

/** Three slots, so that each is used again soon. */
export const smallestSubnet = (runtime: 'runc' | 'runsc'): string =>
  subnets[runtime === 'runc' ? 'container' : 'gvisor'].replace('/24', '/28')

type OpenOciBench = (changes?: Partial<OciDriverOptions>) => Promise<OciBench>
export type OciSuite = (runtime: 'runc' | 'runsc', open: OpenOciBench) => void

export function runOciSuites(
  isolation: Isolation,
  suites: OciSuite[],
  common: Partial<OciDriverOptions> = {},
): void {
  const open: OpenOciBench = (changes) =>
    openOciBench(runtimes[isolation], subnets[isolation], { ...common, ...changes })
  for (const suite of suites) suite(runtimes[isolation], open)
}
