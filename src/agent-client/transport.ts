/** The Connect protocol to one agent. Nothing is unpacked, and no message is larger than the agent's own. */
import type { IncomingMessage } from 'node:http'
import { Readable } from 'node:stream'
import { pipeline } from 'node:stream/promises'
import type { Transport } from '@connectrpc/connect'
import type { UniversalClientFn } from '@connectrpc/connect/protocol'
import { createTransport } from '@connectrpc/connect/protocol-connect'
import type { Endpoint } from '../core/driver.ts'
import { AppError, isAppError } from '../lib/app-error.ts'
import { delay } from '../lib/clock.ts'
import type { Pace } from '../lib/pace.ts'
import { requestAgent, responseTo } from './request.ts'

/** The agent sends output in pieces far smaller than this. */
const largestMessage = 256 * 1024
const largestRequest = 32 * 1024 * 1024

/** Bytes are read at the given pace. */
export function createAgentTransport(agent: Endpoint, pace: Pace): Transport {
  return createTransport({
    httpClient: httpClientOf(agent, pace),
    baseUrl: `http://${agent.host}:${agent.port}`,
    useBinaryFormat: true,
    interceptors: [],
    acceptCompression: [],
    sendCompression: null,
    compressMinBytes: 0,
    readMaxBytes: largestMessage,
    writeMaxBytes: largestRequest,
  })
}

/** A failure of the connection leaves it as an AppError, which Connect keeps as the cause of its own. */
function httpClientOf(agent: Endpoint, pace: Pace): UniversalClientFn {
  return async ({ url, method, header, body, signal = new AbortController().signal }) => {
    const headers = Object.fromEntries(header)
    const outgoing = requestAgent(agent, { method, path: new URL(url).pathname, headers, signal })
    const answered = responseTo(outgoing)
    // A failure to send is a failure of the answer too, and told there.
    pipeline(Readable.from(body ?? []), outgoing).catch(() => {})
    const response = await answered.catch((error) => {
      throw brokenOff(error)
    })
    const { statusCode: status = 0 } = response
    if (status !== 200) {
      outgoing.destroy()
      throw new AppError('internal', `the agent answered a call with the status ${status}`)
    }
    return {
      status,
      header: headersOf(response),
      body: bytesOf(response, pace, signal),
      trailer: new Headers(),
    }
  }
}

function headersOf({ headersDistinct }: IncomingMessage): Headers {
  const headers = new Headers()
  for (const [name, values] of Object.entries(headersDistinct)) headers.set(name, values!.join(', '))
  return headers
}

async function* bytesOf(
  response: IncomingMessage,
  pace: Pace,
  signal: AbortSignal,
): AsyncGenerator<Uint8Array> {
  // With all that HTTP puts around them: many small chunks cost more than their content.
  const { socket } = response
  let spentBytes = 0
  try {
    for await (const chunk of response as AsyncIterable<Buffer>) {
      yield chunk
      const waitMs = pace.spend(socket.bytesRead - spentBytes)
      spentBytes = socket.bytesRead
      if (waitMs > 0) await delay(waitMs, signal)
    }
  } catch (error) {
    throw brokenOff(error)
  }
}

function brokenOff(error: unknown): AppError {
  if (isAppError(error)) return error
  return new AppError('unavailable', 'the agent broke off the call before it had ended', { cause: error })
}
