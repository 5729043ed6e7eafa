/** The runtime flavours by their names in records and options. */

import type { RuntimeName } from '../../host/record/records.ts'
import { gvisor } from './gvisor.ts'
import { runc } from './runc.ts'
import type { OciIsolation, RuntimeFlavour } from './runtime-flavour.ts'

const flavours: Record<RuntimeName, RuntimeFlavour> = { runc, runsc: gvisor }

/** A sandbox keeps the runtime that it was started with, whichever one is chosen for new ones. */
export const flavourOf = ({ runtime }: { runtime: RuntimeName }): RuntimeFlavour => flavours[runtime]

export const flavourFor = (isolation: OciIsolation): RuntimeFlavour =>
  Object.values(flavours).find((flavour) => flavour.isolation === isolation)!
