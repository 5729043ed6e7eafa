/**
 * The Connect protocol over Node's HTTP server, for calls with JSON or binary messages and without
 * compression. Each command passes through here: what a library for all protocols does in addition costs more
 * than the command.
 */
import type { IncomingMessage, ServerResponse } from 'node:http'
import type { DescMessage, DescService, MessageInitShape, MessageShape } from '@bufbuild/protobuf'
import type { MethodFields } from '../../contract/rpc/message-fields.ts'
import { openHeaders } from '../cors.ts'
import { wireError } from '../errors.ts'
import { AnswerStream } from './answer-stream.ts'
import { byteText, type Codec, codecNameOf, type RpcMethod } from './codec.ts'
import { connectStatusOf } from './connect-code.ts'
import type { PlainMessage } from './json-codec.ts'
import { loadCodec } from './load-codec.ts'
import { readEnvelopes, readMessage, readSingleEnvelope } from './read-request.ts'
import { RpcCall } from './rpc-call.ts'
import { RpcError } from './rpc-error.ts'

type Kind<Name, I, O> = { methodKind: Name; input: I; output: O }

/** The implementation of a method, by its kind. */
type Implementation<M> =
  M extends Kind<'unary', infer I extends DescMessage, infer O extends DescMessage>
    ? (message: MessageShape<I>, call: RpcCall) => MessageInitShape<O> | Promise<MessageInitShape<O>>
    : M extends Kind<'client_streaming', infer I extends DescMessage, infer O extends DescMessage>
      ? (messages: AsyncIterable<MessageShape<I>>, call: RpcCall) => Promise<MessageInitShape<O>>
      : M extends Kind<'server_streaming', infer I extends DescMessage, infer O extends DescMessage>
        ? // The answer is ended by the method, or by its failure.
          (
            message: MessageShape<I>,
            call: RpcCall,
            answer: AnswerStream<MessageInitShape<O>>,
          ) => void | Promise<void>
        : never

export type RpcMethods<S extends DescService> = {
  [Name in keyof S['method']]: Implementation<S['method'][Name]>
}

/** Answers the request if it is a known call. */
export type RpcHandler = (request: IncomingMessage, response: ServerResponse, path: string) => boolean

type AnyMethod = (message: unknown, call: RpcCall, answer?: AnswerStream<unknown>) => unknown
type RpcRoute = { method: RpcMethod; run: AnyMethod }

export function createRpcHandler(register: (add: AddService) => void): RpcHandler {
  const routes = new Map<string, RpcRoute>()
  register((service, fields, methods) => {
    for (const [name, method] of Object.entries<MethodFields>(fields)) {
      const run = (methods as Record<string, AnyMethod>)[name]!
      routes.set(`/${service}/${method.name}`, { method: { ...method, service }, run })
    }
  })
  return (request, response, path) => {
    const route = routes.get(path)
    if (!route) return false
    const isStream = route.method.kind !== 'unary'
    const codecName = codecNameOf(request.headers['content-type'], isStream)
    if (request.method !== 'POST') sendNothing(response, 405)
    else if (!codecName) sendNothing(response, 415)
    else if (isStream) void answerStream(route, codecName, request, response)
    else void answerUnary(route, codecName, request, response)
    return true
  }
}

/** `S` is the generated description of the service; only its types are used. */
type AddService = <S extends DescService>(
  service: S['typeName'],
  fields: Record<keyof S['method'], MethodFields>,
  methods: RpcMethods<S>,
) => void

async function answerUnary(
  { method, run }: RpcRoute,
  codecName: Codec['type'],
  request: IncomingMessage,
  response: ServerResponse,
): Promise<void> {
  let call: RpcCall | undefined
  try {
    call = openCall(request, response, 'content-encoding')
    const codec = await loadCodec(codecName)
    const message = codec.decode(method, await readMessage(request))
    const answer = (await run(message, call)) as PlainMessage
    send(response, 200, `application/${codecName}`, codec.encode(method, answer))
  } catch (error) {
    const wire = wireError(error)
    send(response, connectStatusOf(wire.code), 'application/json', byteText(JSON.stringify(wire)))
  } finally {
    call?.close()
  }
}

async function answerStream(
  { method, run }: RpcRoute,
  codecName: Codec['type'],
  request: IncomingMessage,
  response: ServerResponse,
): Promise<void> {
  const codec = await loadCodec(codecName)
  const answer = new AnswerStream<PlainMessage>(response, `application/connect+${codecName}`, (values) =>
    codec.encode(method, values),
  )
  try {
    const call = openCall(request, response, 'connect-content-encoding')
    if (method.kind === 'client_streaming') {
      answer.send((await run(decodeAll(request, codec, method), call)) as PlainMessage)
      answer.end()
    } else {
      const message = codec.decode(method, await readSingleEnvelope(request))
      await run(message, call, answer as AnswerStream<unknown>)
    }
  } catch (error) {
    answer.end(error)
  }
}

function openCall(request: IncomingMessage, response: ServerResponse, encodingHeader: string): RpcCall {
  const encoding = request.headers[encodingHeader]
  if (encoding !== undefined && encoding !== 'identity') {
    throw new RpcError('unimplemented', `unknown compression "${encoding}": none is supported`)
  }
  return new RpcCall(request, response)
}

async function* decodeAll(request: IncomingMessage, codec: Codec, method: RpcMethod) {
  for await (const bytes of readEnvelopes(request)) yield codec.decode(method, bytes)
}

/** `body` has one character for each byte. */
function send(response: ServerResponse, status: number, type: string, body: string): void {
  if (response.destroyed) return
  const headers = ['content-type', type, 'content-length', String(body.length), ...openHeaders]
  response.writeHead(status, headers).end(body, 'latin1')
}

function sendNothing(response: ServerResponse, status: number): void {
  response.writeHead(status, ['content-length', '0', ...openHeaders]).end()
}
