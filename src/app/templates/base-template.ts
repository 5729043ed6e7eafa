/**
 * Keeps the public template `base` in line with this machine's layers for it and with the configured sizes.
 */
import { envdVersion } from '../../contract/constants.ts'
import { defaultTag } from '../../core/template/reference.ts'
import type { TemplateBuild } from '../../core/template/template.ts'
import type { FreshTemplate, TemplateStore } from '../../core/template/template-store.ts'
import { isAppError } from '../../lib/app-error.ts'
import type { Clock } from '../../lib/clock.ts'
import { newTemplateID, newUUID } from '../../lib/ids.ts'

const baseName = 'base'

type Base = Pick<TemplateBuild, 'cpuCount' | 'memoryMB' | 'diskMB'> & { layers: string[] }

export async function registerBaseTemplate(
  templates: TemplateStore,
  base: Base,
  clock: Clock,
): Promise<TemplateBuild> {
  const known = await templates.findByAlias(null, baseName)
  const current = known && (await templates.findReadyBuild(known.templateID, defaultTag))
  if (current && isSame(current, base)) return current
  const now = clock.now()
  const templateID = known?.templateID ?? newTemplateID()
  const build = { ...newBuild(templateID, now), ...base }
  try {
    await templates.insertBuild(build, [defaultTag], known ? undefined : freshTemplate(templateID, now))
    return build
  } catch (error) {
    // Another Warren on the same database created the template meanwhile.
    if (!known && isAppError(error, 'already_exists')) return registerBaseTemplate(templates, base, clock)
    throw error
  }
}

function freshTemplate(templateID: string, now: number): FreshTemplate {
  const times = { createdAt: now, updatedAt: now, lastSpawnedAt: null }
  const template = { templateID, teamID: null, public: true, isSnapshot: false, spawnCount: 0, ...times }
  return { template, names: [{ alias: baseName, namespace: null }] }
}

function newBuild(templateID: string, now: number): Omit<TemplateBuild, keyof Base> {
  return {
    buildID: newUUID(),
    templateID,
    status: 'ready',
    envdVersion,
    envVars: {},
    defaultUser: 'user',
    defaultWorkdir: '/home/user',
    startCmd: null,
    readyCmd: null,
    serviceContext: null,
    startRequest: null,
    snapshot: null,
    rootFolder: null,
    reason: null,
    createdAt: now,
    updatedAt: now,
    finishedAt: now,
  }
}

function isSame(build: TemplateBuild, { layers, ...sizes }: Base): boolean {
  return (
    build.layers?.join() === layers.join() &&
    (Object.keys(sizes) as (keyof typeof sizes)[]).every((key) => build[key] === sizes[key])
  )
}
