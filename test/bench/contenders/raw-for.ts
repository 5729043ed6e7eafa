/** The runtime behind an isolation, called by hand. */
import { dataPaths } from '../../../src/app/data/data-folder.ts'
import { findRunsc } from '../../../src/app/setup/gvisor.ts'
import type { Isolation } from '../../support/warren.ts'
import type { BenchMachine, WarrenMode } from '../bench-machine.ts'
import { type RawRuntime, type RawSlot, rawRuntime } from './raw-runtime.ts'
import type { StartedAgent } from './warren.ts'

export async function rawFor(
  machine: BenchMachine,
  isolation: Isolation,
  agent: Pick<StartedAgent, 'platform'>,
): Promise<RawRuntime> {
  const name = isolation === 'container' ? 'raw runc' : 'raw runsc'
  return rawRuntime(name, await rawSlot(machine, isolation, agent))
}

/** Sandboxes that are there at the same time need networks of different numbers. */
export async function rawSlot(
  machine: BenchMachine,
  isolation: Isolation,
  { platform }: Pick<StartedAgent, 'platform'>,
  network = 0,
  mode?: WarrenMode,
): Promise<RawSlot> {
  const slot = { rootFolder: await machine.rootFolder(mode), network: await machine.network(network) }
  if (isolation === 'container') return { ...slot, command: ['runc'] }
  const { dataFolder } = await machine.warren(isolation, mode)
  const runsc = findRunsc(dataPaths(dataFolder).runtimes)
  if (!runsc || !platform) throw new Error('this Warren has no gVisor')
  // On the platform that Warren chose, and with the files where Warren has them: in the host's overlay.
  const options = [`--platform=${platform}`, '--network=sandbox', '--overlay2=none']
  return { ...slot, command: [runsc, ...options] }
}
