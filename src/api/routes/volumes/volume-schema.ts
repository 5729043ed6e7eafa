import type { FastifyRequest } from 'fastify'
import type { VolumeAndToken } from '../../../contract/rest/volume.ts'
import type { Volume } from '../../../core/volume/volume.ts'
import type { RouteContext } from '../../context.ts'
import { domainFor } from '../../present.ts'

export const volumeSchema = { tags: ['volumes'], security: [{ ApiKeyAuth: [] }] }

/** Includes a fresh token. Clients reach the content under the domain. */
export function presentVolume(
  volume: Volume,
  context: RouteContext,
  request: FastifyRequest,
): VolumeAndToken {
  const { volumeID, name } = volume
  const domain = domainFor(context.domain, request)
  return { volumeID, name, token: context.volumes.tokenOf(volume), ...(domain !== null && { domain }) }
}
