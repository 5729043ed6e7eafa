/** Reads the messages of a request, within limits. */
import type { IncomingMessage } from 'node:http'
import { EnvelopeReader, largestMessage } from './envelope.ts'
import { RpcError } from './rpc-error.ts'

/** Reads the whole body, which is the message of a call that is not a stream. */
export async function readMessage(request: IncomingMessage): Promise<Buffer> {
  const chunks: Buffer[] = []
  let bytes = 0
  await readChunks(request, (chunk) => {
    bytes += chunk.length
    if (bytes > largestMessage) {
      throw new RpcError('resource_exhausted', `message size is larger than ${largestMessage}`)
    }
    chunks.push(chunk)
  })
  return chunks.length === 1 ? chunks[0]! : Buffer.concat(chunks)
}

/** Reads the only message of a call whose answer is a stream. */
export async function readSingleEnvelope(request: IncomingMessage): Promise<Buffer> {
  const reader = new EnvelopeReader()
  let message: Buffer | undefined
  await readChunks(request, (chunk) => {
    for (const next of reader.push(chunk)) {
      if (message) throw new RpcError('unimplemented', 'protocol error: received extra input message')
      message = next
    }
  })
  reader.end()
  if (!message) throw new RpcError('unimplemented', 'protocol error: missing input message')
  return message
}

/** Yields messages as they come. A reader that stops leaves the rest until the end of the answer. */
export async function* readEnvelopes(request: IncomingMessage): AsyncGenerator<Buffer> {
  const reader = new EnvelopeReader()
  for await (const chunk of request.iterator({ destroyOnReturn: false })) yield* reader.push(chunk as Buffer)
  reader.end()
}

/**
 * Uses events, which take a fraction of the time of iterating over a stream. Rejects with the error that
 * `onChunk` throws.
 */
function readChunks(request: IncomingMessage, onChunk: (chunk: Buffer) => void): Promise<void> {
  return new Promise((resolve, reject) => {
    const onData = (chunk: Buffer) => {
      try {
        onChunk(chunk)
      } catch (error) {
        request.off('data', onData)
        reject(error)
      }
    }
    const onClose = () => reject(new RpcError('canceled', 'the request was broken off'))
    if (request.destroyed) onClose()
    request.on('data', onData)
    request.once('end', () => {
      request.off('close', onClose)
      resolve()
    })
    request.once('close', onClose)
    // Without a listener an error ends the process; the 'close' that follows it rejects.
    request.once('error', () => {})
  })
}
