import type { FastifyRequest } from 'fastify'
import type { Volume as ListedVolume, VolumeAndToken } from '../../../contract/rest/volume.ts'
import type { Volume } from '../../../core/volume/volume.ts'
import type { RouteContext } from '../../context.ts'
import { dateTime, domainFor } from '../../present.ts'

export const volumeSchema = { tags: ['volumes'], security: [{ ApiKeyAuth: [] }] }

/** Includes a fresh token. Clients reach the content under the domain. */
export function presentVolume(
  volume: Volume,
  context: RouteContext,
  request: FastifyRequest,
): VolumeAndToken {
  const domain = domainFor(context.domain, request)
  const token = context.volumes.tokenOf(volume)
  return { ...presentListedVolume(volume), token, ...(domain !== null && { domain }) }
}

export function presentListedVolume({ volumeID, name, createdAt, sizeMB }: Volume): ListedVolume {
  return { volumeID, name, createdAt: dateTime(createdAt), sizeMB }
}
