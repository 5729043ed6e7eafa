/** Keeps the public template `base` pointing at the root filesystem that this machine has made for it. */
import { envdVersion } from '../contract/constants.ts'
import type { TemplateStore } from '../core/stores.ts'
import { defaultTag } from '../core/template/reference.ts'
import type { TemplateBuild } from '../core/template/template.ts'
import type { Clock } from '../lib/clock.ts'
import { newTemplateID, newUUID } from '../lib/ids.ts'

const baseName = 'base'

export type BaseRoot = { rootFolder: string; cpuCount: number; memoryMB: number; diskMB: number }

export async function registerBaseTemplate(
  templates: TemplateStore,
  root: BaseRoot,
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
  if (current && isSame(current, root)) return current
  const build: TemplateBuild = {
    buildID: newUUID(),
    templateID,
    status: 'ready',
    ...root,
    envdVersion,
    envVars: {},
    defaultUser: 'user',
    defaultWorkdir: '/home/user',
    startCmd: null,
    readyCmd: null,
    saved: null,
    layers: null,
    reason: null,
    createdAt: now,
    updatedAt: now,
    finishedAt: now,
  }
  await templates.insertBuild(build, [defaultTag])
  return build
}

function isSame(build: TemplateBuild, root: BaseRoot): boolean {
  return (Object.keys(root) as (keyof BaseRoot)[]).every((key) => build[key] === root[key])
}
