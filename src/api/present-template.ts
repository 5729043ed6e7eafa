/** Templates and builds to wire. */
import type * as wire from '../contract/rest/template.ts'
import { atLeast, type LogEntry } from '../core/ports/logs.ts'
import type { BuildProgress } from '../core/template/build-service.ts'
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
