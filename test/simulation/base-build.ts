import type { TemplateBuild } from '../../src/core/template/template.ts'
import { aBuild } from '../../src/store/suite/rows.ts'
import type { Plan } from './plan.ts'

/** The build of the template that every machine has from the beginning. */
export const baseBuild = ({ hasService }: Plan, now: number): TemplateBuild =>
  aBuild('basetemplate', {
    buildID: '11111111-1111-4111-8111-111111111111',
    rootFolder: 'root',
    envVars: {},
    startCmd: hasService ? 'serve' : null,
    createdAt: now,
    updatedAt: now,
    finishedAt: now,
  })
