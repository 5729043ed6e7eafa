import type { IncomingMessage } from 'node:http'
import { AppError } from '../lib/app-error.ts'

const mebibyte = 1024 * 1024

/** Reads the whole body as JSON. An empty body is undefined. */
export async function readJSON(request: IncomingMessage, largestMB: number): Promise<unknown> {
  const text = await readBody(request, largestMB)
  if (text.trim() === '') return undefined
  try {
    return JSON.parse(text)
  } catch (error) {
    throw new AppError('invalid_argument', 'the body is not JSON', { cause: error })
  }
}

/** Uses events: the modules that Node loads for `for await` would delay the first answer of an agent. */
function readBody(request: IncomingMessage, largestMB: number): Promise<string> {
  return new Promise((resolve, reject) => {
    const chunks: Buffer[] = []
    let size = 0
    request.on('data', (chunk: Buffer) => {
      size += chunk.length
      if (size <= largestMB * mebibyte) return void chunks.push(chunk)
      reject(new AppError('payload_too_large', `the body is larger than ${largestMB} MiB`))
      request.destroy()
    })
    request.on('end', () => resolve(Buffer.concat(chunks).toString()))
    request.on('error', reject)
  })
}
