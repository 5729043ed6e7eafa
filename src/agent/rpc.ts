/** Joins the Connect services to Node's HTTP server. No compression: the wire has none on streams. */
import type { IncomingMessage, ServerResponse } from 'node:http'
import type { DescService } from '@bufbuild/protobuf'
import { Code, ConnectError, createConnectRouter, type ServiceImpl } from '@connectrpc/connect'
import { codeFromString } from '@connectrpc/connect/protocol-connect'
import { universalRequestFromNodeRequest, universalResponseToNodeResponse } from '@connectrpc/connect-node'
import { connectCodeOf, fromSystemError } from './errors.ts'

export type RpcHandler = (request: IncomingMessage, response: ServerResponse, path: string) => boolean

const largestMessage = 32 * 1024 * 1024
/** A longer time limit is none: a Node timer cannot hold it and would fire at once. */
const longestTimeoutMs = 2 ** 31 - 1

export function createRpcHandler(register: (add: AddService) => void): RpcHandler {
  const router = createConnectRouter({
    acceptCompression: [],
    readMaxBytes: largestMessage,
    grpc: false,
    grpcWeb: false,
  })
  register((service, routes) => router.service(service, withKnownErrors(routes)))
  const handlers = new Map(router.handlers.map((handler) => [handler.requestPath, handler]))
  return (request, response, path) => {
    const handler = handlers.get(path)
    if (!handler) return false
    const timeoutMs = Number(request.headers['connect-timeout-ms'])
    if (timeoutMs > longestTimeoutMs) delete request.headers['connect-timeout-ms']
    handler(universalRequestFromNodeRequest(request, response, undefined, undefined))
      .then((answer) => universalResponseToNodeResponse(answer, response))
      .catch(() => response.destroy())
    return true
  }
}

export type AddService = <T extends DescService>(service: T, routes: Partial<ServiceImpl<T>>) => void

type Method = (input: unknown, context: unknown) => unknown

/** Every failure leaves a method as a ConnectError, whether it comes at once, later, or amid a stream. */
function withKnownErrors<T extends DescService>(routes: Partial<ServiceImpl<T>>): Partial<ServiceImpl<T>> {
  const wrapped = Object.entries(routes as Record<string, Method>).map(([name, method]) => [
    name,
    (input: unknown, context: unknown) => {
      try {
        const result = method(input, context)
        if (result instanceof Promise) return result.catch(rethrow)
        return isStream(result) ? convertStream(result) : result
      } catch (error) {
        return rethrow(error)
      }
    },
  ])
  return Object.fromEntries(wrapped)
}

function isStream(value: unknown): value is AsyncIterable<unknown> {
  return typeof value === 'object' && value !== null && Symbol.asyncIterator in value
}

async function* convertStream(stream: AsyncIterable<unknown>) {
  try {
    yield* stream
  } catch (error) {
    rethrow(error)
  }
}

function rethrow(error: unknown): never {
  if (error instanceof ConnectError) throw error
  const known = fromSystemError(error)
  throw new ConnectError(
    known.message,
    codeFromString(connectCodeOf(known)) ?? Code.Unknown,
    undefined,
    undefined,
    known,
  )
}
