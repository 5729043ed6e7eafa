/** Sends an admitted request to its sandbox, and answers for the sandbox if it does not. */
import type { ClientRequestArgs } from 'node:http'
import type { Socket } from 'node:net'
import { MalformedHead, type OutgoingHead } from '../lib/http-relay/headers.ts'
import { HttpRelay, MalformedAnswer } from '../lib/http-relay/http-relay.ts'
import { TooManyInterimAnswers } from '../lib/http-relay/interim-answers.ts'
import { resetSocket } from '../lib/join-sockets.ts'
import type { Log } from '../lib/log.ts'
import { requestIDOf } from '../lib/request-id.ts'
import { tokenInHost } from './access.ts'
import {
  type EdgeAnswer,
  portClosed,
  routingFailed,
  sendAnswer,
  upstreamFailed,
  upstreamMalformed,
} from './answers.ts'
import type { Cut } from './clients.ts'
import { PortClosed } from './dial.ts'
import { headersFromSandbox, headForSandbox, ownedByEdge } from './headers.ts'
import type { SandboxDestination } from './host.ts'
import type { EdgeExchange } from './request-watch.ts'
import type { Run } from './run.ts'

type SandboxExchange = EdgeExchange & { run: Run; destination: SandboxDestination; log: Log }

const nothingToCut: Cut = () => {}

export function forward(exchange: SandboxExchange): Cut {
  const { request, response } = exchange
  let relay: HttpRelay
  try {
    relay = startRelay(exchange, headOf(exchange))
  } catch (error) {
    sendAnswer(request, response, answerToBadRequest(exchange, error))
    return nothingToCut
  }
  return (answer) => {
    // Clients take a broken answer for the end of its sandbox, and a clean end for a complete answer.
    if (!answer || relay.hasAnswered) resetSocket(request.socket)
    else sendAnswer(request, response, answer)
    relay.leave()
  }
}

function headOf({ request, run, destination, awaitsContinue, upgrade }: SandboxExchange): OutgoingHead {
  const { ownHost, port } = destination
  const maskHost = run.maskHost(port)
  const agentToken = tokenInHost(request, destination, run.route)
  const { route } = run
  const ownTokens = [route.agentToken, route.trafficToken].filter((token) => token !== null)
  const options = { ownHost, port, maskHost, agentToken, ownTokens, hostToken: route.hostToken }
  return headForSandbox(request, { ...options, awaitsContinue, upgrade: upgrade !== null })
}

function startRelay(exchange: SandboxExchange, head: OutgoingHead): HttpRelay {
  const { request, response, awaitsContinue, upgrade, run, destination } = exchange
  const { port, path, ownHost } = destination
  return new HttpRelay({
    request,
    response,
    awaitsContinue,
    upgrade,
    head,
    target: {
      ...(upgrade ? { createConnection: tunnelSocket(run, port) } : { agent: run.agent }),
      port,
      path,
    },
    answerHeaders(raw, keepsTrailers) {
      exchange.watch?.answered()
      return headersFromSandbox(raw, { ownHost, keepsTrailers, requestID: requestIDOf(request) })
    },
    ownTrailers: ownedByEdge,
    pacer: run.pacer,
    fail: (error) => sendAnswer(request, response, answerToFailure(exchange, error)),
  })
}

/** A tunnel may close one direction alone, so its connection is not from the pool. */
function tunnelSocket(run: Run, port: number): ClientRequestArgs['createConnection'] {
  return (_options, callback) => {
    const done = callback as (error: Error | null, socket?: Socket) => void
    run.dial(port, true).then((socket) => done(null, socket), done)
    return undefined
  }
}

function answerToBadRequest({ request, destination, log }: SandboxExchange, error: unknown): EdgeAnswer {
  if (error instanceof MalformedHead) return { status: error.status, text: error.message }
  log.debug(
    { requestID: requestIDOf(request), error, sandboxID: destination.sandboxID },
    'A request could not be forwarded.',
  )
  return routingFailed('the request line or a header is malformed')
}

function answerToFailure({ request, run, destination, log }: SandboxExchange, error: Error): EdgeAnswer {
  const { sandboxID, port } = destination
  const requestID = requestIDOf(request)
  if (error instanceof PortClosed) return portClosed(sandboxID, port)
  if (error instanceof TooManyInterimAnswers && run.isFirstFlood()) {
    log.warn({ requestID, sandboxID, port }, `The edge cut a connection to a sandbox: ${error.message}.`)
  }
  log.debug({ requestID, error, sandboxID, port }, 'A sandbox did not answer.')
  if (error instanceof MalformedAnswer || error instanceof TooManyInterimAnswers)
    return upstreamMalformed(sandboxID, port, error.message)
  return upstreamFailed(sandboxID, port)
}
