import type { Break } from './break.ts'
import { clientBreaks } from './client-breaks.ts'
import { hostBreaks } from './host-breaks.ts'
import { neighbourBreaks } from './neighbour-breaks.ts'
import { outsideBreaks } from './outside-breaks.ts'
import { sandboxBreaks } from './sandbox-breaks.ts'
import { unitBreaks } from './unit-breaks.ts'
import { wallBreaks } from './wall-breaks.ts'

export const breaks: Break[] = [
  ...unitBreaks,
  ...outsideBreaks,
  ...sandboxBreaks,
  ...clientBreaks,
  ...wallBreaks,
  ...hostBreaks,
  ...neighbourBreaks,
]
