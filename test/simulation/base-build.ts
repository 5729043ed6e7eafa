import type { TemplateBuild } from '../../src/core/template/template.ts'
import type { Plan } from './plan.ts'

/** The build of the template that every machine has from the beginning. */
export const baseBuild = ({ hasService }: Plan, now: number): TemplateBuild => ({
  buildID: '11111111-1111-4111-8111-111111111111',
  templateID: 'basetemplate',
  status: 'ready',
  cpuCount: 2,
  memoryMB: 512,
  diskMB: 1024,
  envdVersion: '0.6.13',
  rootFolder: 'root',
  layers: null,
  envVars: {},
  defaultUser: 'user',
  defaultWorkdir: '/home/user',
  startCmd: hasService ? 'serve' : null,
  readyCmd: null,
  serviceContext: null,
  reason: null,
  startRequest: null,
  snapshot: null,
  createdAt: now,
  updatedAt: now,
  finishedAt: now,
})
