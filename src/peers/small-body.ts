import type { HttpExchange } from '../lib/http-relay/http-relay.ts'

/** Requests up to this size can be sent a second time. */
const mostBytes = 64 * 1024

/** Reads the body of a small request. Undefined if it has none, or if its size is too large or unknown. */
export async function readSmallBody({
  request,
  awaitsContinue,
  upgrade,
}: HttpExchange): Promise<Buffer | undefined> {
  const length = Number(request.headers['content-length'] ?? 0)
  if (upgrade || awaitsContinue || !(length > 0 && length <= mostBytes)) return undefined
  const pieces: Buffer[] = []
  for await (const piece of request.iterator({ destroyOnReturn: false })) pieces.push(piece as Buffer)
  return Buffer.concat(pieces)
}
