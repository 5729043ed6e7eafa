/** Chooses the isolation of sandboxes: the configured one, or the strongest that works here. */
import type { Driver } from '../core/ports/driver.ts'
import type { OciDriverOptions } from '../drivers/oci/context/driver-options.ts'
import { createOciDriver } from '../drivers/oci/oci-driver.ts'
import { AppError } from '../lib/app-error.ts'
import type { Config } from './config.ts'
import type { Runtimes } from './setup/prepare-machine.ts'
import { StartRefusal } from './start-refusal.ts'

export type ChosenIsolation = {
  driver: Driver
  isolation: 'gvisor' | 'container'
  /** Set if sandboxes are containers although nobody asked for that: what happened, and what to do. */
  warning?: string
}

/** The uid on the host of the root user inside a sandbox; image layers are unpacked for it. */
export const sandboxOwner = 100_000

type CommonOptions = Omit<OciDriverOptions, 'isolation' | 'runtimeBinary' | 'uidBase'>

export async function chooseIsolation(
  wanted: Config['isolation'],
  runtimes: Runtimes,
  common: CommonOptions,
): Promise<ChosenIsolation> {
  const options = { ...common, uidBase: sandboxOwner }
  let whyNotGvisor = runtimes.runscMissing ?? 'Its runtime, runsc, is not installed.'
  if (wanted !== 'container' && runtimes.runsc !== undefined) {
    const driver = createOciDriver({ ...options, isolation: 'gvisor', runtimeBinary: runtimes.runsc })
    const probe = await driver.probe()
    if (probe.usable) return { driver, isolation: 'gvisor' }
    await driver.close()
    whyNotGvisor = `${probe.reason}. ${probe.remedy}`
  }
  if (wanted === 'gvisor') {
    throw new AppError(
      'unavailable',
      `WARREN_ISOLATION is gvisor, but gVisor does not work here: ${whyNotGvisor} ` +
        '`warren doctor` says more; WARREN_ISOLATION=container uses plain containers.',
    )
  }
  const driver = createOciDriver({ ...options, isolation: 'container', runtimeBinary: runtimes.runc })
  const probe = await driver.probe()
  if (!probe.usable)
    throw new StartRefusal('unavailable', `Sandboxes cannot run here: ${probe.reason}. ${probe.remedy}`)
  if (wanted === 'container') return { driver, isolation: 'container' }
  return { driver, isolation: 'container', warning: warningOf(whyNotGvisor) }
}

const warningOf = (whyNotGvisor: string) =>
  `Sandboxes are plain containers, because gVisor does not work here: ${whyNotGvisor} ` +
  "Containers isolate less: all of them share this machine's kernel, and a hole in it is a way out. " +
  'Start Warren once with network, so that it can build gVisor; `warren doctor` says more. ' +
  'WARREN_ISOLATION=gvisor never starts without gVisor; WARREN_ISOLATION=container accepts containers and ends this warning.'
