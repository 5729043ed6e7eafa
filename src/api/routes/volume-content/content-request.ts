/** Shared by all routes to the content of volumes. */
import { finished, Readable } from 'node:stream'
import type { FastifyReply, FastifyRequest } from 'fastify'
import { type VolumeEntryStat, VolumePath } from '../../../contract/rest/volume.ts'
import type { VolumeEntry, VolumeFiles } from '../../../core/volume/volume-files.ts'
import { bearerToken } from '../../auth.ts'
import type { RouteContext } from '../../context.ts'
import { dateTime } from '../../present.ts'

export const contentSchema = {
  tags: ['volumes'],
  security: [{ VolumeTokenAuth: [] }],
  params: VolumePath,
}

/** Runs the work for a client that shows the volume's token; nobody else learns whether the volume exists. */
export function withFiles<T>(
  { volumes }: RouteContext,
  request: FastifyRequest,
  work: (files: VolumeFiles) => Promise<T>,
): Promise<T> {
  const { volumeID } = request.params as { volumeID: string }
  return volumes.withFiles(volumeID, bearerToken(request), work)
}

export function presentEntry(entry: VolumeEntry): VolumeEntryStat {
  const { atime, mtime, ctime, ...rest } = entry
  return { ...rest, atime: dateTime(atime), mtime: dateTime(mtime), ctime: dateTime(ctime) }
}

/** Resolves once everything was sent or the client has disconnected. A HEAD request reads nothing. */
export async function sendStream(reply: FastifyReply, stream: Readable): Promise<FastifyReply> {
  if (reply.request.method === 'HEAD') {
    stream.destroy()
    return reply.send(Readable.from([]))
  }
  const sent = new Promise<void>((resolve) => finished(reply.raw, { readable: false }, () => resolve()))
  reply.send(stream)
  await sent
  return reply
}
