/** What the chosen isolation needs to use the cards of this machine. */
import { candidatePlatforms } from '../../drivers/oci/runtime/platforms.ts'
import type { Config } from '../config/config.ts'
import { gpuDriversOf } from '../isolation/gpu-drivers.ts'
import { type GpuSupport, ownProgram } from './gpus.ts'
import { tryCard } from './try-card.ts'

/** Undefined: sandboxes use the machine's driver itself, so any version. */
export async function gpuSupportOf(
  { isolation, gvisorPlatform }: Pick<Config, 'isolation' | 'gvisorPlatform'>,
  programOf: Parameters<typeof gpuDriversOf>[1],
): Promise<GpuSupport | undefined> {
  const found = await gpuDriversOf(isolation, programOf)
  if (!found) return undefined
  const platform = gvisorPlatform === 'auto' ? candidatePlatforms()[0]! : gvisorPlatform
  return {
    drivers: found.drivers,
    tryCard: (machine, card, borrowedInterface) =>
      tryCard({ runsc: found.program, platform, machine, card, program: ownProgram(), borrowedInterface }),
  }
}
