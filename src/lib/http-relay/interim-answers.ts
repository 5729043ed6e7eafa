/** Interim answers (1xx) on their way to a client, within bounds: the far side may be hostile and never come to the
 * final one. */
import type { ClientRequest, IncomingMessage, ServerResponse } from 'node:http'
import { headText } from './headers.ts'

/** Honest services send one or two; some repeat 102 every few seconds while they work. */
const maxAnswers = 100
/** The maximum size of one head. */
const maxBytes = 64 * 1024

export class TooManyInterimAnswers extends Error {
  constructor() {
    super(`the service sent more than ${maxAnswers} interim answers or ${maxBytes} bytes of them`)
  }
}

type InterimOptions = {
  request: IncomingMessage
  response: ServerResponse
  /** The client waits for a 100 before it sends its body. */
  awaitsContinue: boolean
  answerHeaders(raw: readonly string[], keepsTrailers: boolean): string[]
}

type Information = { statusCode: number; statusMessage: string; rawHeaders: string[] }

/** Destroys the request with `TooManyInterimAnswers` when the bounds are reached. */
export function relayInterimAnswers(upstream: ClientRequest, options: InterimOptions): void {
  let answers = 0
  let bytes = 0
  let hasContinued = false
  upstream.on('information', (information: Information) => {
    // One read may contain thousands of answers, and Node parses all of them before it closes the connection.
    if (upstream.destroyed) return
    answers += 1
    bytes += sizeOf(information)
    if (answers > maxAnswers || bytes > maxBytes) upstream.destroy(new TooManyInterimAnswers())
    else if (information.statusCode !== 100) relayOne(information, options)
    else if (options.awaitsContinue && !hasContinued && isNext(options)) {
      hasContinued = true
      options.response.writeContinue()
    }
  })
}

function relayOne({ statusCode, statusMessage, rawHeaders }: Information, options: InterimOptions): void {
  const { socket } = options.response
  // A client that does not read misses these answers: nothing depends on them, and they are not buffered.
  if (!socket || !isNext(options) || socket.writableNeedDrain) return
  socket.write(headText(statusCode, statusMessage, options.answerHeaders(rawHeaders, false)), 'latin1')
}

/** True if it is this request's turn on the client's connection, and its final answer has not begun. */
function isNext({ request, response }: InterimOptions): boolean {
  return response.socket !== null && !response.headersSent && request.httpVersionMinor === 1
}

function sizeOf({ statusMessage, rawHeaders }: Information): number {
  return rawHeaders.reduce((sum, text) => sum + text.length, statusMessage.length)
}
