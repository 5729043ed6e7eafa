/** Templates and builds to wire. */
import type { BuiltInTemplate } from '../contract/rest/built-in.ts'
import type * as wire from '../contract/rest/template.ts'
import { atLeast, type LogEntry } from '../core/ports/logs.ts'
import type { BuildProgress } from '../core/template/build-service.ts'
import type { ListedRecipe } from '../core/template/built-in-templates.ts'
import { fullName } from '../core/template/catalog.ts'
import type { TemplateBuild, TemplateSummary } from '../core/template/template.ts'
import { dateTime } from './present.ts'

const noBuild = '00000000-0000-0000-0000-000000000000'

export function presentTemplate({
  template,
  names,
  build,
  buildStatus,
  buildCount,
}: TemplateSummary): wire.Template {
  return {
    templateID: template.templateID,
    buildID: build?.buildID ?? noBuild,
    cpuCount: build?.cpuCount ?? 0,
    memoryMB: build?.memoryMB ?? 0,
    diskSizeMB: build?.diskMB ?? 0,
    ...(build?.gpuCount && { gpuCount: build.gpuCount }),
    public: template.public,
    aliases: [...new Set(names.map(({ alias }) => alias))],
    names: names.map(fullName),
    createdAt: dateTime(template.createdAt),
    updatedAt: dateTime(template.updatedAt),
    createdBy: null,
    lastSpawnedAt: template.lastSpawnedAt === null ? null : dateTime(template.lastSpawnedAt),
    spawnCount: template.spawnCount,
    buildCount,
    envdVersion: build?.envdVersion ?? '',
    buildStatus,
    ...(template.teamID === null && { isDefault: true }),
  }
}

export function presentBuild(build: TemplateBuild): wire.TemplateBuild {
  return {
    buildID: build.buildID,
    status: build.status,
    createdAt: dateTime(build.createdAt),
    updatedAt: dateTime(build.updatedAt),
    ...(build.finishedAt !== null && { finishedAt: dateTime(build.finishedAt) }),
    cpuCount: build.cpuCount,
    memoryMB: build.memoryMB,
    diskSizeMB: build.diskMB,
    ...(build.gpuCount && { gpuCount: build.gpuCount }),
    envdVersion: build.envdVersion,
  }
}

export function presentLine({ at, message, level, fields }: LogEntry): wire.BuildLogEntry {
  return { timestamp: dateTime(at), message, level, ...(fields.step && { step: fields.step }) }
}

const usualLogLimit = 100

/** The progress of a build, with the log lines that the query selects. */
export function presentProgress(
  { build, entries, lastEntries }: BuildProgress,
  { logsOffset = 0, limit = usualLogLimit, level }: wire.StatusQuery,
): wire.BuildStatusAnswer {
  const shown = atLeast(entries, level).slice(logsOffset, logsOffset + limit)
  const { templateID, buildID, status, reason } = build
  return {
    templateID,
    buildID,
    status,
    logs: shown.map(({ message }) => `${message}\n`),
    logEntries: shown.map(presentLine),
    ...(reason && {
      reason: {
        message: reason.message,
        ...(reason.step !== null && { step: reason.step }),
        logEntries: lastEntries.map(presentLine),
      },
    }),
  }
}

export function presentBuiltIn({ recipe, isReady, newest }: ListedRecipe): BuiltInTemplate {
  const { name, alias, about, seconds, sizes, note } = recipe
  const { cpuCount, memoryMB, diskMB, gpuCount } = sizes
  return {
    name,
    alias,
    about,
    seconds,
    cpuCount,
    memoryMB,
    diskSizeMB: diskMB,
    ready: isReady,
    ...(gpuCount && { gpuCount }),
    ...(note !== undefined && { note }),
    ...(newest && { build: presentNewest(newest) }),
  }
}

function presentNewest(build: TemplateBuild): NonNullable<BuiltInTemplate['build']> {
  const { templateID, buildID, status, createdAt, finishedAt, reason } = build
  return {
    templateID,
    buildID,
    status,
    createdAt: dateTime(createdAt),
    ...(finishedAt !== null && { finishedAt: dateTime(finishedAt) }),
    ...(reason && { reason: reason.message }),
  }
}

/** The server makes `base` at its start; nobody builds it. */
export function presentBase({ build }: TemplateSummary): BuiltInTemplate {
  const { cpuCount = 0, memoryMB = 0, diskMB = 0 } = build ?? {}
  return {
    name: 'base',
    alias: 'base',
    about: 'Debian with Python, Node, git and compilers. Sandboxes start from it unless they name another.',
    cpuCount,
    memoryMB,
    diskSizeMB: diskMB,
    ready: build !== null,
  }
}
