import type { CanShareConnections } from '../../core/ports/connection-shares.ts'
import type {
  CanExportSnapshots,
  CanFillMemory,
  CanFreeze,
  CanLimitEgress,
  CanSnapshot,
  DriverCapabilities,
} from '../../core/ports/driver.ts'
import type { CanMeasureUse } from '../../core/ports/resource-use.ts'
import type { OciContext } from './context/context.ts'

export type OciPowers = CanFreeze &
  CanLimitEgress &
  CanSnapshot &
  CanExportSnapshots &
  CanFillMemory &
  CanMeasureUse &
  CanShareConnections

/** The powers of the driver on this machine. */
export const capabilitiesOf = ({ runtime, pages }: OciContext): DriverCapabilities => ({
  freeze: true,
  snapshotFiles: true,
  snapshotMemory: runtime.flavour.keepsMemory,
  limitEgress: true,
  exportSnapshots: true,
  fillMemory: pages !== undefined,
  measureUse: true,
  shareConnections: true,
})
