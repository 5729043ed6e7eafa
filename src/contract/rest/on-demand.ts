/** Templates of an image or of a size, which are built where there is none. Additions of Warren. */
import { type Static, Type } from 'typebox'
import { BuildStatus, CpuCount, MemoryMB } from './template.ts'

export const NewOnDemandTemplate = Type.Object({
  image: Type.Optional(
    Type.String({ maxLength: 384, description: 'An image, such as ubuntu:24.04; without it, the template' }),
  ),
  template: Type.Optional(Type.String({ description: 'The template to give another size; base by default' })),
  cpuCount: Type.Optional(CpuCount),
  memoryMB: Type.Optional(MemoryMB),
})
export type NewOnDemandTemplate = Static<typeof NewOnDemandTemplate>

export const PreparedTemplate = Type.Object({
  reference: Type.String({ description: 'By which sandboxes are created once the build is ready' }),
  templateID: Type.String(),
  buildID: Type.String(),
  status: BuildStatus,
})
export type PreparedTemplate = Static<typeof PreparedTemplate>
