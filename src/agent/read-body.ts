import type { IncomingMessage } from 'node:http'
import { AppError } from '../lib/app-error.ts'

const mebibyte = 1024 * 1024

/** The whole body as JSON. An empty body is undefined. */
export async function readJSON(request: IncomingMessage, largestMB: number): Promise<unknown> {
  const text = await readBody(request, largestMB)
  if (text.trim() === '') return undefined
  try {
    return JSON.parse(text)
  } catch (error) {
    throw new AppError('invalid_argument', 'the body is not JSON', { cause: error })
  }
}

async function readBody(request: IncomingMessage, largestMB: number): Promise<string> {
  const chunks: Buffer[] = []
  let size = 0
  for await (const chunk of request as AsyncIterable<Buffer>) {
    size += chunk.length
    if (size > largestMB * mebibyte) {
      throw new AppError('payload_too_large', `the body is larger than ${largestMB} MiB`)
    }
    chunks.push(chunk)
  }
  return Buffer.concat(chunks).toString()
}
