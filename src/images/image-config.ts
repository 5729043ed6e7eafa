/** The relevant part of an image's configuration: its environment, user, folder and layers. */
import type { ImageConfig } from '../core/ports/images.ts'
import { isDigest } from './digest.ts'
import { assertPlatform, type ImagePlatform, parseJSON, unusable } from './manifest.ts'

type ImageFacts = { config: ImageConfig; diffIDs: string[] }

export function parseImageConfig(what: string, bytes: Uint8Array, wanted: ImagePlatform): ImageFacts {
  const json = parseJSON(what, bytes)
  assertPlatform(what, platformIn(json), wanted)
  const { diff_ids: diffIDs } = (json.rootfs ?? {}) as { diff_ids?: unknown }
  if (!Array.isArray(diffIDs) || !diffIDs.every(isDigest)) throw unusable(what, 'does not name its layers')
  const run = (json.config ?? {}) as Record<string, unknown>
  return {
    config: { env: parseEnv(run.Env), user: textOf(run.User), workdir: textOf(run.WorkingDir) },
    diffIDs,
  }
}

function platformIn({ os, architecture }: Record<string, unknown>): Partial<ImagePlatform> {
  return {
    ...(typeof os === 'string' && os !== '' && { os }),
    ...(typeof architecture === 'string' && architecture !== '' && { architecture }),
  }
}

/** Parses `NAME=value` lines; the last of the same name counts, and a line without a name is ignored. */
function parseEnv(given: unknown): Record<string, string> {
  const pairs = (Array.isArray(given) ? given : [])
    .filter(
      (line): line is string => typeof line === 'string' && line.indexOf('=') > 0 && !line.includes('\0'),
    )
    .map((line): [string, string] => [line.slice(0, line.indexOf('=')), line.slice(line.indexOf('=') + 1)])
  return Object.fromEntries(pairs)
}

const textOf = (value: unknown): string => (typeof value === 'string' && !value.includes('\0') ? value : '')
