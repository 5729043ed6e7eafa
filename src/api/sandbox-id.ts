import { AppError } from '../lib/app-error.ts'

/**
 * The parameters of a request for the log, without the client ID of a sandbox: it may stand for a token. So may any part of
 * a path that no route has named.
 */
export function loggedParams(params: unknown): object {
  const { '*': _, ...all } = params as Record<string, unknown>
  const { sandboxID } = all
  return typeof sandboxID === 'string' ? { ...all, sandboxID: sandboxID.split('-', 1)[0] } : all
}

/** Accepts `{id}` and the older `{id}-{clientID}`; only the ID counts. */
export function parseSandboxID(text: string): string {
  const match = /^([a-z0-9]{1,64})(?:-[a-z0-9]+)?$/.exec(text)
  if (!match) throw new AppError('invalid_argument', 'Invalid sandbox ID')
  return match[1]!
}
