/** Streams a file into a sandbox. */
import { request } from 'node:http'
import type { Readable } from 'node:stream'
import { pipeline } from 'node:stream/promises'
import { header } from '../contract/constants.ts'
import type { Endpoint } from '../core/driver.ts'
import { AppError } from '../lib/app-error.ts'

const longestQuotedBody = 1000

export async function writeFile(
  agent: Endpoint,
  accessToken: string,
  path: string,
  body: Readable,
  signal: AbortSignal,
): Promise<void> {
  const query = new URLSearchParams({ path, username: 'root' })
  const headers = { 'content-type': 'application/octet-stream', [header.accessToken]: accessToken }
  const target = { host: agent.host, port: agent.port, method: 'POST', path: `/files?${query}`, headers }
  const outgoing = request({ ...target, agent: false, signal })
  const answered = new Promise<{ status: number; text: string }>((resolve, reject) => {
    outgoing.on('error', reject)
    outgoing.on('response', (response) => {
      let text = ''
      response.setEncoding('utf8')
      response.on('data', (chunk: string) => {
        if (text.length < longestQuotedBody) text += chunk
      })
      response.on('error', reject)
      response.on('end', () => resolve({ status: response.statusCode ?? 0, text }))
    })
  })
  // An early refusal ends the sending, and is what the caller hears.
  const [sent, answer] = await Promise.allSettled([pipeline(body, outgoing), answered])
  if (answer.status === 'rejected') throw answer.reason
  if (answer.value.status !== 200) {
    const said = answer.value.text.slice(0, longestQuotedBody)
    throw new AppError('unprocessable', `the sandbox refused the file ${path}: ${said}`)
  }
  if (sent.status === 'rejected') throw sent.reason
}
