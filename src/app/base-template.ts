/** Keeps the public template `base` in line with this machine's layers for it and with the configured sizes. */
import { envdVersion } from '../contract/constants.ts'
import type { TemplateStore } from '../core/stores.ts'
import { defaultTag } from '../core/template/reference.ts'
import type { TemplateBuild } from '../core/template/template.ts'
import type { Clock } from '../lib/clock.ts'
import { newTemplateID, newUUID } from '../lib/ids.ts'

const baseName = 'base'

export type Base = Pick<TemplateBuild, 'cpuCount' | 'memoryMB' | 'diskMB'> & { layers: string[] }

export async function registerBaseTemplate(
  templates: TemplateStore,
  base: Base,
  clock: Clock,
): Promise<TemplateBuild> {
  const now = clock.now()
  const templateID = (await templates.findByAlias(null, baseName))?.templateID ?? newTemplateID()
  if (!(await templates.findByID(templateID))) {
    const times = { createdAt: now, updatedAt: now, lastSpawnedAt: null }
    const template = { templateID, teamID: null, public: true, isSnapshot: false, spawnCount: 0, ...times }
    await templates.insertTemplate(template, [{ alias: baseName, namespace: null }])
  }
  const current = await templates.findReadyBuild(templateID, defaultTag)
  if (current && isSame(current, base)) return current
  const build: TemplateBuild = {
    buildID: newUUID(),
    templateID,
    status: 'ready',
    ...base,
    envdVersion,
    envVars: {},
    defaultUser: 'user',
    defaultWorkdir: '/home/user',
    startCmd: null,
    readyCmd: null,
    snapshot: null,
    rootFolder: null,
    reason: null,
    createdAt: now,
    updatedAt: now,
    finishedAt: now,
  }
  await templates.insertBuild(build, [defaultTag])
  return build
}

function isSame(build: TemplateBuild, { layers, ...sizes }: Base): boolean {
  return (
    build.layers?.join() === layers.join() &&
    (Object.keys(sizes) as (keyof typeof sizes)[]).every((key) => build[key] === sizes[key])
  )
}
