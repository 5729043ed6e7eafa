/** The disks of the volumes of one machine, with a watch over what is removed. They outlive the process. */
import { FakeVolumeDisks } from '../support/fake-volumes.ts'

export class SimulatedDisks extends FakeVolumeDisks {
  override readonly disks: Set<string>

  constructor(onRemoved: (volumeID: string) => void) {
    super()
    this.disks = new (class extends Set<string> {
      override delete(volumeID: string): boolean {
        if (this.has(volumeID)) onRemoved(volumeID)
        return super.delete(volumeID)
      }
    })()
  }
}
