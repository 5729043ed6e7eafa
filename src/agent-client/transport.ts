/** The Connect protocol to one agent. No compression, and no message larger than the agent's own. */
import type { IncomingMessage } from 'node:http'
import { Readable } from 'node:stream'
import { pipeline } from 'node:stream/promises'
import type { Transport } from '@connectrpc/connect'
import type { UniversalClientFn } from '@connectrpc/connect/protocol'
import { createTransport } from '@connectrpc/connect/protocol-connect'
import type { Endpoint } from '../core/ports/driver.ts'
import { AppError, isAppError } from '../lib/app-error.ts'
import type { Pace } from '../lib/pace.ts'
import { requestAgent, responseTo } from './request.ts'

/** The agent sends output in much smaller pieces. */
const largestMessage = 256 * 1024
const largestRequest = 32 * 1024 * 1024

/** Reads bytes at the given pace. */
export function createAgentTransport(agent: Endpoint, pace: Pace): Transport {
  return createTransport({
    httpClient: httpClientOf(agent, pace),
    baseUrl: `http://${agent.host}:${agent.port}`,
    // The agent would have to load a library for the binary format.
    useBinaryFormat: false,
    interceptors: [],
    acceptCompression: [],
    sendCompression: null,
    compressMinBytes: 0,
    readMaxBytes: largestMessage,
    writeMaxBytes: largestRequest,
  })
}

/** A failure of the connection becomes an AppError, which Connect keeps as the cause of its own error. */
function httpClientOf(agent: Endpoint, pace: Pace): UniversalClientFn {
  return async ({ url, method, header, body, signal = new AbortController().signal }) => {
    const headers = Object.fromEntries(header)
    const path = new URL(url).pathname
    const outgoing = requestAgent(agent, { method, path, headers, signal, paces: [pace] })
    const answered = responseTo(outgoing)
    // A failure to send is also a failure of the answer, and is reported there.
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
      body: bytesOf(response),
      trailer: new Headers(),
    }
  }
}

function headersOf({ headersDistinct }: IncomingMessage): Headers {
  const headers = new Headers()
  for (const [name, values] of Object.entries(headersDistinct)) headers.set(name, values!.join(', '))
  return headers
}

async function* bytesOf(response: IncomingMessage): AsyncGenerator<Uint8Array> {
  try {
    yield* response as AsyncIterable<Buffer>
  } catch (error) {
    throw brokenOff(error)
  }
}

function brokenOff(error: unknown): AppError {
  if (isAppError(error)) return error
  return new AppError('unavailable', 'the agent broke off the call before it had ended', { cause: error })
}
