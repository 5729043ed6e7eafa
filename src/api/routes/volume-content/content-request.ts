/** What all routes to the content of volumes share. */
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

/** Whoever shows the token of the volume works on its files; nobody else is told whether it is there. */
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

/** Resolves once all was sent or nobody reads any more. Who asks for the head alone costs nothing more. */
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
