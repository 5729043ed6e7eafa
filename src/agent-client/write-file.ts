/** Streams a file into a sandbox. */
import type { Readable } from 'node:stream'
import { pipeline } from 'node:stream/promises'
import { header } from '../contract/constants.ts'
import type { Endpoint } from '../core/ports/driver.ts'
import { AppError } from '../lib/app-error.ts'
import { answerTo, requestAgent } from './request.ts'

export async function writeFile(
  agent: Endpoint,
  accessToken: string,
  path: string,
  body: Readable,
  signal: AbortSignal,
): Promise<void> {
  const query = new URLSearchParams({ path, username: 'root' })
  const headers = { 'content-type': 'application/octet-stream', [header.accessToken]: accessToken }
  const outgoing = requestAgent(agent, { method: 'POST', path: `/files?${query}`, headers, signal })
  const answered = answerTo(outgoing)
  // An early rejection ends the sending, and the caller gets that rejection.
  const [sent, answer] = await Promise.allSettled([pipeline(body, outgoing), answered])
  if (answer.status === 'rejected') throw answer.reason
  if (answer.value.status !== 200) {
    throw new AppError('unprocessable', `the sandbox rejected the file ${path}: ${answer.value.text}`)
  }
  if (sent.status === 'rejected') throw sent.reason
}
