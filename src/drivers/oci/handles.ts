/** The handles that the domain stores to find a sandbox of this driver again. */
import type { DriverHandle, FreedAddress } from '../../core/ports/driver.ts'
import { AppError } from '../../lib/app-error.ts'
import type { Listeners } from '../../lib/listeners.ts'
import { assertSandboxID, type SandboxRecord } from '../host/record/records.ts'
import { flavourOf } from './runtime/flavours.ts'
import type { RuntimeFlavour } from './runtime/runtime-flavour.ts'

type HandleData = { sandboxID: string; runID: string; address: string }

const handleVersion = 1

/** Databases contain handles with these names, so the names never change. */
export const driverName = ({ runtime }: RuntimeFlavour): string => `oci-${runtime}`

export function handleOf(record: SandboxRecord): DriverHandle {
  const { sandboxID, runID, address } = record
  return handleWith(driverName(flavourOf(record)), { sandboxID, runID, address })
}

export const watchFreed = (
  freed: Listeners<SandboxRecord>,
  listener: (address: FreedAddress) => void,
): (() => void) => freed.add((record) => listener({ sandboxID: record.sandboxID, handle: handleOf(record) }))

/** For a sandbox that was cut off when only its folder existed. */
export function unfinishedHandle(driver: string, sandboxID: string): DriverHandle {
  return handleWith(driver, { sandboxID, runID: '', address: '' })
}

function handleWith(driver: string, data: HandleData): DriverHandle {
  return { driver, version: handleVersion, data }
}

export function readHandle(handle: DriverHandle): HandleData {
  const { sandboxID, runID, address } = handle.data
  if (!handle.driver.startsWith('oci-') || handle.version !== handleVersion) {
    throw new AppError(
      'internal',
      `A handle of the driver ${handle.driver} with the format ${handle.version} cannot be read by this version of ` +
        'Warren. Run the version that wrote it.',
    )
  }
  assertSandboxID(String(sandboxID))
  return { sandboxID: String(sandboxID), runID: String(runID), address: String(address) }
}
