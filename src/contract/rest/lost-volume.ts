/** Volumes that were lost with a forgotten node, as the operator's own surface shows them. */
import { type Static, Type } from 'typebox'
import { DateTime } from './shared.ts'
import { NewVolume } from './volume.ts'

export const LostVolumePath = Type.Object({ lostVolumeID: Type.String() })

export const LostVolumeEntry = Type.Object({
  volumeID: Type.String(),
  name: Type.String(),
  teamID: Type.String(),
  nodeID: Type.String({ description: 'The node that has its disk, or had it last' }),
  sizeMB: Type.Integer(),
  lostAt: DateTime,
  foundAt: Type.Union([DateTime, Type.Null()], { description: 'Null: no node has its disk' }),
})
export type LostVolumeEntry = Static<typeof LostVolumeEntry>

export const VolumeRecovery = Type.Object({
  name: Type.Optional({ ...NewVolume.properties.name, description: 'A new name; its old one if missing' }),
})

export const RecoveredVolume = Type.Object({
  volumeID: Type.String(),
  name: Type.String(),
  teamID: Type.String(),
})
export type RecoveredVolume = Static<typeof RecoveredVolume>
