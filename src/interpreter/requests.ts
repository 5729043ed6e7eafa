/** Reads request bodies within limits, and validates them. */
import type { IncomingMessage } from 'node:http'
import { AppError } from '../lib/app-error.ts'

const largestBody = 64 * 1024 * 1024

/** The body violates the protocol. */
export class InvalidBody extends AppError {
  constructor(message: string) {
    super('invalid_argument', message)
  }
}

type ExecuteBody = {
  code: string
  language: string | undefined
  contextID: string | undefined
  variables: Record<string, string>
}

export async function readExecuteRequest(request: IncomingMessage): Promise<ExecuteBody> {
  const body = await readObject(request)
  const code = optionalText(body, 'code')
  if (code === undefined) throw new InvalidBody('code must be a string')
  const variables = body.env_vars ?? {}
  if (typeof variables !== 'object' || Array.isArray(variables)) {
    throw new InvalidBody('env_vars must be an object of strings')
  }
  for (const [name, value] of Object.entries(variables)) {
    if (typeof value !== 'string' || name === '' || /[=\0]/.test(name) || value.includes('\0')) {
      throw new InvalidBody('env_vars must be an object of strings')
    }
  }
  return {
    code,
    language: optionalText(body, 'language'),
    contextID: optionalText(body, 'context_id'),
    variables: variables as Record<string, string>,
  }
}

export async function readContextRequest(
  request: IncomingMessage,
): Promise<{ language: string | undefined; cwd: string | undefined }> {
  const body = await readObject(request)
  return { language: optionalText(body, 'language'), cwd: optionalText(body, 'cwd') }
}

function optionalText(body: Record<string, unknown>, name: string): string | undefined {
  const value = body[name] ?? undefined
  if (value === undefined || typeof value === 'string') return value
  throw new InvalidBody(`${name} must be a string`)
}

async function readObject(request: IncomingMessage): Promise<Record<string, unknown>> {
  const parts: Buffer[] = []
  let size = 0
  for await (const chunk of request) {
    size += chunk.length
    if (size > largestBody) throw new InvalidBody('the body is larger than 64 MiB')
    parts.push(chunk)
  }
  let body: unknown
  try {
    body = size === 0 ? {} : JSON.parse(Buffer.concat(parts).toString())
  } catch {
    throw new InvalidBody('the body must be JSON')
  }
  if (typeof body !== 'object' || body === null || Array.isArray(body)) {
    throw new InvalidBody('the body must be an object')
  }
  return body as Record<string, unknown>
}
