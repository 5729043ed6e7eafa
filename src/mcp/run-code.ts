/** Runs a cell in the code interpreter of a sandbox, and limits the size of its results. */
import type { IncomingMessage } from 'node:http'
import { interpreterPort } from '../contract/constants.ts'
import { AppError } from '../lib/app-error.ts'
import type { BufferedAnswers } from './answer-budget.ts'
import { BoundedText } from './bounded-text.ts'
import type { SandboxPort, WarrenClient } from './warren-client.ts'

type CodeRequest = { code: string; language: string; timeoutSeconds: number }

type CodeOutcome = {
  /** The output of the code. */
  printed: BoundedText
  /** The values and the error of the code. Their order relative to the output is unknown. */
  results: BoundedText
  /** Base64. */
  images: string[]
  failed: boolean
}

const shownCharacters = 30_000
const maxBytes = 32 * 1024 * 1024
const maxImages = 4
const largestImage = 4 * 1024 * 1024
/** One event, with all forms of a result. */
const largestLine = 8 * 1024 * 1024
const keepaliveMs = 30_000

type CellEvent = {
  type?: string
  text?: string
  png?: string
  name?: string
  value?: string
  traceback?: string
}

export async function runCode(
  client: WarrenClient,
  agent: SandboxPort,
  { code, language, timeoutSeconds }: CodeRequest,
  signal: AbortSignal,
): Promise<CodeOutcome> {
  // The interpreter interrupts a cell when its client disconnects.
  const deadline = AbortSignal.timeout(timeoutSeconds * 1000)
  const ask = {
    method: 'POST',
    path: '/execute',
    body: JSON.stringify({ code, language }),
    withinMs: keepaliveMs,
    headers: { 'content-type': 'application/json' },
    signal: AbortSignal.any([signal, deadline]),
  }
  try {
    const response = await client.reach({ ...agent, port: interpreterPort }, ask)
    return await outcomeIn(response, client.buffered)
  } catch (error) {
    if (deadline.aborted) {
      const late = `The code was interrupted because it did not end within ${timeoutSeconds} seconds.`
      throw new AppError('deadline_exceeded', late, { cause: error })
    }
    if (error instanceof AppError && error.message.includes('port is not open')) {
      throw new AppError(
        'unprocessable',
        "This sandbox has no code interpreter. Create one from the template 'code-interpreter-v1', or use run_command.",
        { cause: error },
      )
    }
    throw error
  }
}

async function outcomeIn(response: IncomingMessage, buffered: BufferedAnswers): Promise<CodeOutcome> {
  const outcome: CodeOutcome = {
    printed: new BoundedText(shownCharacters),
    results: new BoundedText(shownCharacters),
    images: [],
    failed: false,
  }
  let rest = ''
  let bytes = 0
  response.setEncoding('utf8')
  for await (const chunk of response as AsyncIterable<string>) {
    bytes += chunk.length
    buffered.add(chunk.length)
    const before = rest.length + imageBytes(outcome)
    if (bytes > maxBytes || rest.length > largestLine)
      throw new AppError('payload_too_large', 'The code wrote too much and was interrupted.')
    let from = 0
    for (let end = chunk.indexOf('\n'); end >= 0; end = chunk.indexOf('\n', from)) {
      const line = rest + chunk.slice(from, end)
      if (line !== '') addEvent(JSON.parse(line) as CellEvent, outcome)
      rest = ''
      from = end + 1
    }
    rest += chunk.slice(from)
    buffered.add(rest.length + imageBytes(outcome) - before - chunk.length)
  }
  return outcome
}

const imageBytes = ({ images }: CodeOutcome) => images.reduce((sum, { length }) => sum + length, 0)

function addEvent({ type, text = '', png, ...error }: CellEvent, outcome: CodeOutcome): void {
  if (type === 'stdout' || type === 'stderr') outcome.printed.add(text)
  if (type === 'result') {
    if (text !== '') outcome.results.add(`${text}\n`)
    const fits = png !== undefined && png.length <= largestImage && outcome.images.length < maxImages
    if (fits) outcome.images.push(png)
  }
  if (type === 'error') {
    outcome.failed = true
    outcome.results.add(`${error.name}: ${error.value}\n${error.traceback ?? ''}\n`)
  }
}
