/** Chooses the isolation of sandboxes: what the operator asked for, or the strongest that works here. */
import type { Driver } from '../core/ports/driver.ts'
import type { OciDriverOptions } from '../drivers/oci/context/driver-options.ts'
import { createOciDriver } from '../drivers/oci/oci-driver.ts'
import { AppError } from '../lib/app-error.ts'
import type { Config } from './config.ts'
import { StartRefusal } from './start-refusal.ts'

export type Runtimes = {
  runc: string
  runsc: string | undefined
}

export type ChosenIsolation = { driver: Driver; isolation: 'gvisor' | 'container'; note: string }

/** The uid on the host that root has inside a sandbox; image layers are unpacked for it. */
export const sandboxOwner = 100_000

type CommonOptions = Omit<OciDriverOptions, 'isolation' | 'runtimeBinary' | 'uidBase'>

export async function chooseIsolation(
  wanted: Config['isolation'],
  runtimes: Runtimes,
  common: CommonOptions,
): Promise<ChosenIsolation> {
  const options = { ...common, uidBase: sandboxOwner }
  let whyNotGvisor = 'its runtime, runsc, is not installed'
  if (wanted !== 'container' && runtimes.runsc !== undefined) {
    const driver = createOciDriver({ ...options, isolation: 'gvisor', runtimeBinary: runtimes.runsc })
    const probe = await driver.probe()
    if (probe.usable) return { driver, isolation: 'gvisor', note: probe.detail }
    await driver.close()
    whyNotGvisor = `${probe.reason} ${probe.remedy}`
  }
  if (wanted === 'gvisor') {
    throw new AppError(
      'unavailable',
      `WARREN_ISOLATION is gvisor, but gVisor does not work here: ${whyNotGvisor}. ` +
        '`warren doctor` says more; WARREN_ISOLATION=container uses plain containers.',
    )
  }
  const driver = createOciDriver({ ...options, isolation: 'container', runtimeBinary: runtimes.runc })
  const probe = await driver.probe()
  if (!probe.usable)
    throw new StartRefusal('unavailable', `Sandboxes cannot run here: ${probe.reason} ${probe.remedy}`)
  const note =
    wanted === 'auto' ? `plain containers, because gVisor cannot be used: ${whyNotGvisor}` : probe.detail
  return { driver, isolation: 'container', note }
}
